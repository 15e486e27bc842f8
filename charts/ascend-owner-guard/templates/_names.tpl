{{- define "guard.name" -}}ascend-owner-guard{{- end -}}

{{- define "guard.labels" -}}
app.kubernetes.io/name: ascend-owner-guard
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "guard.selector" -}}
app.kubernetes.io/name: ascend-owner-guard
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The mode of the rule `.rule`. */}}
{{- define "guard.mode" -}}
{{- index (.root.Values.config.rules | default dict) .rule | default .root.Values.mode -}}
{{- end -}}

{{/* The configuration file: the values' mapping, with the namespace that the guard is in and its certificate. */}}
{{- define "guard.config" -}}
{{- $given := .Values.certificates -}}
{{- $certificates := dict "mode" "files" -}}
{{- if ne $given.mode "cert-manager" -}}
{{- $certificates = dict "mode" $given.mode "secretName" $given.secretName "service" (include "guard.name" .) "webhook" (include "guard.name" .) -}}
{{- end -}}
{{- if eq $given.mode "self-managed" -}}
{{- $certificates = merge $certificates (dict "leafLife" $given.leafLife "authorityLife" $given.authorityLife "key" $given.key) -}}
{{- end -}}
{{- $rules := dict -}}
{{- if ne .Values.mode "enforce" -}}
{{- range list "second-owner" "generated-object" "mid-switch" "workloads-running" "base-stack" "overlapping-maintenance" "placement" "node-relabel" "unaccounted-access" "resource-mismatch" -}}
{{- $_ := set $rules . (include "guard.mode" (dict "root" $ "rule" .)) -}}
{{- end -}}
{{- end -}}
{{- $own := dict "namespace" .Release.Namespace "rules" $rules "server" (dict "certificates" $certificates) -}}
{{ toYaml (merge $own (deepCopy .Values.config)) }}
{{- end -}}

{{/* cert-manager knows hours, and no days. */}}
{{- define "guard.hours" -}}
{{- if hasSuffix "d" . }}{{ mul 24 (trimSuffix "d" . | int) }}h{{ else }}{{ . }}{{ end -}}
{{- end -}}
