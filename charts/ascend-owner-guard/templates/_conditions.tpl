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
{{- define "guard.cel.resourcePattern" -}}
{{- $globs := concat .native .hami .both .vnpu .other -}}
^({{ range $index, $glob := $globs }}{{ if $index }}|{{ end }}
{{- $glob | lower | replace "." "[.]" | replace "*" ".*" | replace "?" "." }}{{ end }})$
{{- end -}}

{{/* Not a system controller (garbage collector, namespace controller, …): what these do is never denied. */}}
{{- define "guard.cel.notSystemController" -}}
!(request.userInfo.username in {{ include "guard.cel.list" .Values.config.identities.systemControllers }})
{{- end -}}

{{/* Not a kubelet, by name and group. */}}
{{- define "guard.cel.notKubelet" -}}
!(request.userInfo.username.startsWith('system:node:') && has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups)
{{- end -}}

{{/* Not the removal of finalizers from an object that is being deleted: a dead webhook must not keep it for ever. */}}
{{- define "guard.cel.notFinalizerRemoval" -}}
!(request.operation == 'UPDATE' && has(oldObject.metadata.deletionTimestamp)
  && (has(oldObject.spec) ? has(object.spec) && object.spec == oldObject.spec : !has(object.spec))
  && (has(oldObject.metadata.labels) ? has(object.metadata.labels) && object.metadata.labels == oldObject.metadata.labels : !has(object.metadata.labels))
  && (has(oldObject.metadata.annotations) ? has(object.metadata.annotations) && object.metadata.annotations == oldObject.metadata.annotations : !has(object.metadata.annotations)))
{{- end -}}

{{/* Not the deletion of an object that is being deleted already. */}}
{{- define "guard.cel.notDeletedAgain" -}}
!(request.operation == 'DELETE' && has(oldObject.metadata.deletionTimestamp))
{{- end -}}

{{/* `o` is a workload whose Pods mount a folder where the kubelet looks for plugins. */}}
{{- define "guard.cel.mountsPluginFolder" -}}
has(o.spec) && has(o.spec.template) && has(o.spec.template.spec) && has(o.spec.template.spec.volumes)
  && o.spec.template.spec.volumes.exists(v, has(v.hostPath) && v.hostPath.path.matches('{{ include "guard.cel.pluginFolders" . }}'))
{{- end -}}

{{- define "guard.cel.pluginFolders" -}}
{{- range $index, $path := .Values.config.kubeletPaths }}{{ if $index }}|{{ end -}}
^/*{{ $path | trimAll "/" | replace "." "[.]" | replace "/" "/+" }}(/+(device-plugins|plugins_registry)(/.*)?)?/*$
{{- end -}}
{{- end -}}

{{/* `o` is named, labelled or owned like a plugin that an operator generates. */}}
{{- define "guard.cel.isNamedLikePlugin" -}}
(has(o.metadata.name) && (o.metadata.name.contains('ascend-device-plugin') || o.metadata.name.startsWith('npu-device-plugin')))
  || (has(o.metadata.ownerReferences) && o.metadata.ownerReferences.exists(r, r.kind in ['NPUClusterPolicy', 'NPUOperatorCtl', 'HAMiAscendDevicePlugin']))
  || (has(o.spec) && has(o.spec.template) && has(o.spec.template.metadata) && has(o.spec.template.metadata.labels) && (
       ('name' in o.spec.template.metadata.labels && o.spec.template.metadata.labels['name'].lowerAscii() == 'ascend-device-plugin-ds')
    || ('app.kubernetes.io/component' in o.spec.template.metadata.labels && o.spec.template.metadata.labels['app.kubernetes.io/component'] == 'hami-ascend-device-plugin')))
{{- end -}}

{{/* Every container of the Pod in `object`. */}}
{{- define "guard.cel.containers" -}}
(object.spec.containers
  + (has(object.spec.initContainers) ? object.spec.initContainers : [])
  + (has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : []))
{{- end -}}

{{/* The Pod asks for an NPU resource, in limits or requests of any container. */}}
{{- define "guard.cel.asksForNpu" -}}
{{- $pattern := include "guard.cel.resourcePattern" .Values.config.resources -}}
{{ include "guard.cel.containers" . }}.exists(c, has(c.resources) && (
     (has(c.resources.limits) && c.resources.limits.exists(k, k.lowerAscii().matches('{{ $pattern }}')))
  || (has(c.resources.requests) && c.resources.requests.exists(k, k.lowerAscii().matches('{{ $pattern }}')))))
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
(has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.hostPath) && v.hostPath.path.matches('^/*dev/+(v?davinci|devmm_svm|hisi_hdc)')))
  || {{ include "guard.cel.containers" . }}.exists(c, has(c.volumeMounts) && c.volumeMounts.exists(m,
       has(m.subPath) && m.subPath.matches('(v?davinci|devmm_svm|hisi_hdc)')))
{{- end -}}

{{/* Weaker evidence: claims of any class, all of / or /dev, a driver tree. */}}
{{- define "guard.cel.weakerEvidence" -}}
(has(object.spec.resourceClaims) && object.spec.resourceClaims.size() > 0)
  || (has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.hostPath)
       && (v.hostPath.path.matches('^/*(dev)?/*$') || v.hostPath.path.contains('Ascend')
       {{- range .Values.config.driverPaths }} || v.hostPath.path.contains('{{ . }}'){{ end }})))
{{- end -}}

{{/* A person's Pod that mounts a plugin folder; the Pods of DaemonSets are judged with their DaemonSet. */}}
{{- define "guard.cel.isPluginByHand" -}}
{{ include "guard.cel.notSystemController" . }} && has(object.spec.volumes)
  && object.spec.volumes.exists(v, has(v.hostPath) && v.hostPath.path.matches('{{ include "guard.cel.pluginFolders" . }}'))
{{- end -}}

{{/* The deleted Pod is the native plugin's. */}}
{{- define "guard.cel.isNativePluginPod" -}}
(has(oldObject.metadata.labels) && 'name' in oldObject.metadata.labels && oldObject.metadata.labels['name'].lowerAscii() == 'ascend-device-plugin-ds')
  || (has(oldObject.metadata.ownerReferences) && oldObject.metadata.ownerReferences.exists(r, r.kind == 'DaemonSet' && r.name.contains('ascend-device-plugin')))
{{- end -}}
