{{/*
CEL expressions of the webhook's matchConditions, written once. They decide which requests the API server sends at all, so
that everything else goes on when every replica is down. An expression may be loose, the guard decides exactly; it must
never miss what the guard would deny, and never fail: each optional field is guarded by has().
*/}}

{{/* A list of texts as a CEL list. */}}
{{- define "guard.cel.list" -}}
[{{ range $index, $text := . }}{{ if $index }}, {{ end }}'{{ $text }}'{{ end }}]
{{- end -}}

{{/* Globs on resource names as one regular expression; letters of either case, so the name is lowered before. */}}
{{- define "guard.cel.globs" -}}
^({{ range $index, $glob := . }}{{ if $index }}|{{ end }}
{{- $glob | lower | replace "." "[.]" | replace "*" ".*" | replace "?" "." | replace "[!" "[^" }}{{ end }})$
{{- end -}}

{{/* The key `k` of a container's limits or requests is the full name of an NPU resource. */}}
{{- define "guard.cel.isNpu" -}}
{{- $resources := .Values.config.resources -}}
{{- $npus := concat $resources.native $resources.hami $resources.both $resources.vnpu $resources.other -}}
k.lowerAscii().matches('{{ include "guard.cel.globs" $npus }}')
{{- with $resources.ignored }} && !k.lowerAscii().matches('{{ include "guard.cel.globs" . }}'){{ end }}
{{- end -}}

{{/*
A host path as part of a regular expression, in every spelling that means the same: /a/b, //a/./b, a/b/. The host path is
a text of the user's; the API server refuses nothing in it but `..`.
*/}}
{{- define "guard.cel.path" -}}
[./]*{{ clean . | trimAll "/" | replace "." "[.]" | replace "/" "/[./]*" }}
{{- end -}}

{{/* Not a system controller (garbage collector, namespace controller, …): what these do is never denied. */}}
{{- define "guard.cel.notSystemController" -}}
!(request.userInfo.username in {{ include "guard.cel.list" .Values.config.identities.systemControllers }})
{{- end -}}

{{/* Not a kubelet, by name and group. */}}
{{- define "guard.cel.notKubelet" -}}
!(request.userInfo.username.startsWith('system:node:') && has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups)
{{- end -}}

{{/* A field of the metadata is the same in both objects: `.` is its name. */}}
{{- define "guard.cel.keeps" -}}
(has(oldObject.metadata.{{ . }}) ? has(object.metadata.{{ . }}) && object.metadata.{{ . }} == oldObject.metadata.{{ . }} : !has(object.metadata.{{ . }}))
{{- end -}}

{{/* Not the removal of finalizers from an object that is being deleted: a dead webhook must not keep it for ever. */}}
{{- define "guard.cel.notFinalizerRemoval" -}}
!(request.operation == 'UPDATE' && has(oldObject.metadata.deletionTimestamp)
  && (has(oldObject.spec) ? has(object.spec) && object.spec == oldObject.spec : !has(object.spec))
  && {{ include "guard.cel.keeps" "labels" }}
  && {{ include "guard.cel.keeps" "annotations" }}
  && {{ include "guard.cel.keeps" "ownerReferences" }})
{{- end -}}

{{/* Not the deletion of an object that is being deleted already. */}}
{{- define "guard.cel.notDeletedAgain" -}}
!(request.operation == 'DELETE' && has(oldObject.metadata.deletionTimestamp))
{{- end -}}

{{/*
The Pod spec `.spec` mounts a folder where the kubelet looks for device plugins. The kubelet's whole folder, its registry of
plugins, and a part of a volume that is picked by subPath count only when something in sight speaks of NPUs: CSI drivers
and CNI agents mount the same, and must go on when no replica answers. `.self` is the object, `.pod` what holds `.spec`.
*/}}
{{- define "guard.cel.mountsPluginFolder" -}}
has({{ .spec }}.volumes) && (
  {{ .spec }}.volumes.exists(v, has(v.hostPath) && v.hostPath.path.matches('{{ include "guard.cel.socketFolder" .root }}'))
  || (({{ .spec }}.volumes.exists(v, has(v.hostPath) && v.hostPath.path.matches('{{ include "guard.cel.kubeletFolder" .root }}'))
       || {{ include "guard.cel.allContainers" .spec }}.exists(c, has(c.volumeMounts) && c.volumeMounts.exists(m,
            {{ include "guard.cel.below" . }}.contains('$(') || {{ include "guard.cel.below" . }}.matches('{{ include "guard.cel.folderBySubPath" .root }}'))))
      && ({{ include "guard.cel.speaksOfNpus" . }})))
{{- end -}}

{{/* What a mount `m` picks out of its volume, "" for all of it; an expression may expand to anything after its beginning. */}}
{{- define "guard.cel.below" -}}
(has(m.subPath) ? m.subPath : (has(m.subPathExpr) ? m.subPathExpr : ''))
{{- end -}}

{{/* The folder of the sockets by which device plugins register: nobody but device plugins writes there. */}}
{{- define "guard.cel.socketFolder" -}}
{{- range $index, $path := .Values.config.kubeletPaths }}{{ if $index }}|{{ end -}}
^{{ include "guard.cel.path" $path }}/[./]*device-plugins([./].*)?$
{{- end -}}
{{- end -}}

{{/* The kubelet's whole folder, or the one where DRA and CSI plugins register. */}}
{{- define "guard.cel.kubeletFolder" -}}
{{- range $index, $path := .Values.config.kubeletPaths }}{{ if $index }}|{{ end -}}
^{{ include "guard.cel.path" $path }}(/[./]*plugins_registry([./].*)?|[./]*)$
{{- end -}}
{{- end -}}

{{/* A subPath that may lead into one of these from a folder above. */}}
{{- define "guard.cel.folderBySubPath" -}}
(^|/)(device-plugins|plugins_registry{{ range .Values.config.kubeletPaths }}|{{ clean . | base | replace "." "[.]" }}{{ end }})([./]|$)
{{- end -}}

{{/* Lower-case words of which one is in whatever hands out Ascend chips: the first texts of its resources' names, too. */}}
{{- define "guard.cel.words" -}}
{{- $resources := .Values.config.resources -}}
ascend|(^|[^i])npu|davinci
{{- range concat $resources.native $resources.hami $resources.both $resources.vnpu $resources.other | uniq }}
{{- $word := regexFind "[^*]+" (regexReplaceAll "\\[[^]]*\\]|[?]" (lower .) "*") }}
{{- if and $word (not (regexMatch "ascend|(^|[^i])npu|davinci" $word)) }}|{{ replace "." "[.]" $word }}{{ end }}
{{- end -}}
{{- end -}}

{{/* A name, owner, label, ServiceAccount, image, word of the command, variable or path speaks of NPUs. */}}
{{- define "guard.cel.speaksOfNpus" -}}
{{- $says := printf ".lowerAscii().matches('%s')" (include "guard.cel.words" .root) -}}
(has({{ .self }}.metadata.name) && {{ .self }}.metadata.name{{ $says }})
  || (has({{ .self }}.metadata.generateName) && {{ .self }}.metadata.generateName{{ $says }})
  || (has({{ .self }}.metadata.ownerReferences) && {{ .self }}.metadata.ownerReferences.exists(r, r.kind{{ $says }} || r.name{{ $says }}))
  || (has({{ .self }}.metadata.annotations) && {{ .self }}.metadata.annotations.exists(k, k.startsWith('operator-sdk/') && {{ .self }}.metadata.annotations[k]{{ $says }}))
  || (has({{ .pod }}.metadata) && has({{ .pod }}.metadata.labels) && {{ .pod }}.metadata.labels.exists(k, {{ .pod }}.metadata.labels[k]{{ $says }}))
  || (has({{ .spec }}.serviceAccountName) && {{ .spec }}.serviceAccountName{{ $says }})
  || {{ .spec }}.volumes.exists(v, has(v.hostPath) && v.hostPath.path{{ $says }})
  || {{ include "guard.cel.allContainers" .spec }}.exists(c, (has(c.image) && c.image{{ $says }})
       || (has(c.command) && c.command.exists(w, w{{ $says }}))
       || (has(c.args) && c.args.exists(w, w{{ $says }}))
       || (has(c.env) && c.env.exists(e, has(e.value) && e.value{{ $says }})))
{{- end -}}

{{/* `o` is a workload whose Pods mount such a folder. */}}
{{- define "guard.cel.podsMountPluginFolder" -}}
has(o.spec) && has(o.spec.template) && has(o.spec.template.spec)
  && {{ include "guard.cel.mountsPluginFolder" (dict "root" . "self" "o" "pod" "o.spec.template" "spec" "o.spec.template.spec") }}
{{- end -}}

{{/* `o` is named, labelled or owned like a plugin that an operator generates. */}}
{{- define "guard.cel.isNamedLikePlugin" -}}
(has(o.metadata.name) && (o.metadata.name.contains('ascend-device-plugin') || o.metadata.name.startsWith('npu-device-plugin')))
  || (has(o.metadata.ownerReferences) && o.metadata.ownerReferences.exists(r, r.kind in ['NPUClusterPolicy', 'NPUOperatorCtl', 'HAMiAscendDevicePlugin']))
  || (has(o.spec) && has(o.spec.template) && has(o.spec.template.metadata) && has(o.spec.template.metadata.labels) && (
       ('name' in o.spec.template.metadata.labels && o.spec.template.metadata.labels['name'].lowerAscii() == 'ascend-device-plugin-ds')
    || ('app.kubernetes.io/component' in o.spec.template.metadata.labels && o.spec.template.metadata.labels['app.kubernetes.io/component'] == 'hami-ascend-device-plugin')))
{{- end -}}

{{/* Every container of a Pod spec; `.` is where that is. */}}
{{- define "guard.cel.allContainers" -}}
({{ . }}.containers
  + (has({{ . }}.initContainers) ? {{ . }}.initContainers : [])
  + (has({{ . }}.ephemeralContainers) ? {{ . }}.ephemeralContainers : []))
{{- end -}}

{{/* Every container of the Pod in `object`. */}}
{{- define "guard.cel.containers" -}}
{{ include "guard.cel.allContainers" "object.spec" }}
{{- end -}}

{{/* The Pod asks for an NPU resource, in limits or requests of any container. */}}
{{- define "guard.cel.asksForNpu" -}}
{{ include "guard.cel.containers" . }}.exists(c, has(c.resources) && (
     (has(c.resources.limits) && c.resources.limits.exists(k, {{ include "guard.cel.isNpu" . }}))
  || (has(c.resources.requests) && c.resources.requests.exists(k, {{ include "guard.cel.isNpu" . }}))))
{{- end -}}

{{/* A container names chips by literal ids or by a key; empty and void mean none. */}}
{{- define "guard.cel.namesChips" -}}
{{ include "guard.cel.containers" . }}.exists(c, has(c.env) && c.env.exists(e,
  e.name in ['ASCEND_VISIBLE_DEVICES', 'ASCEND_VNPU_SPECS'] && (
     (has(e.value) && !(e.value.trim().lowerAscii() in ['', 'void']))
  || has(e.valueFrom))))
{{- end -}}

{{/* A volume is a chip's device file, or a mount picks one out of a folder. */}}
{{- define "guard.cel.mountsChip" -}}
(has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.hostPath) && v.hostPath.path.matches('^[./]*dev/[./]*(v?davinci|devmm_svm|hisi_hdc)')))
  || {{ include "guard.cel.containers" . }}.exists(c, has(c.volumeMounts) && c.volumeMounts.exists(m,
       {{ include "guard.cel.below" . }}.matches('(v?davinci|devmm_svm|hisi_hdc)')))
{{- end -}}

{{/*
The key `k` of a container's limits or requests is a DeviceClass, or a resource that one may hand out (its extendedResourceName):
which ones are of NPUs is known to the guard only.
*/}}
{{- define "guard.cel.mayBeOfAClass" -}}
k.contains('/') && (k.startsWith('deviceclass.resource.kubernetes.io/') || !k.contains('kubernetes.io/'))
{{- end -}}

{{/*
Weaker evidence: claims of any class, resources that are no NPUs by name, all of / or /dev, a driver tree, also one that is
picked by subPath.
*/}}
{{- define "guard.cel.weakerEvidence" -}}
(has(object.spec.resourceClaims) && object.spec.resourceClaims.size() > 0)
  || {{ include "guard.cel.containers" . }}.exists(c, has(c.resources) && (
       (has(c.resources.limits) && c.resources.limits.exists(k, {{ include "guard.cel.mayBeOfAClass" . }}))
    || (has(c.resources.requests) && c.resources.requests.exists(k, {{ include "guard.cel.mayBeOfAClass" . }}))))
  || (has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.hostPath)
       && (v.hostPath.path.matches('^[./]*(dev)?[./]*$') || v.hostPath.path.contains('Ascend')
       {{- range .Values.config.driverPaths }} || v.hostPath.path.matches('^{{ include "guard.cel.path" . }}'){{ end }})))
  || {{ include "guard.cel.containers" . }}.exists(c, has(c.volumeMounts) && c.volumeMounts.exists(m,
       ({{ include "guard.cel.below" . }}.contains('Ascend')
       {{- range .Values.config.driverPaths }} || {{ include "guard.cel.below" $ }}.matches('(^|/){{ clean . | base | replace "." "[.]" }}(/|$|[$][(])'){{ end }})))
{{- end -}}

{{/* A person's Pod that mounts a plugin folder; the Pods of DaemonSets are judged with their DaemonSet. */}}
{{- define "guard.cel.isPluginByHand" -}}
{{ include "guard.cel.notSystemController" . }}
  && {{ include "guard.cel.mountsPluginFolder" (dict "root" . "self" "object" "pod" "object" "spec" "object.spec") }}
{{- end -}}

{{/* The object's labels differ from what they were. */}}
{{- define "guard.cel.changesLabels" -}}
!{{ include "guard.cel.keeps" "labels" }}
{{- end -}}

{{/* The deleted Pod is the native plugin's. */}}
{{- define "guard.cel.isNativePluginPod" -}}
(has(oldObject.metadata.labels) && 'name' in oldObject.metadata.labels && oldObject.metadata.labels['name'].lowerAscii() == 'ascend-device-plugin-ds')
  || (has(oldObject.metadata.ownerReferences) && oldObject.metadata.ownerReferences.exists(r, r.kind == 'DaemonSet' && r.name.contains('ascend-device-plugin')))
{{- end -}}
