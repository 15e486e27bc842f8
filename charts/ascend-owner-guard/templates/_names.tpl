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

{{/* The configuration file: the values' mapping, with the namespace that the guard is in. */}}
{{- define "guard.config" -}}
{{ toYaml (merge (dict "namespace" .Release.Namespace) .Values.config) }}
{{- end -}}
