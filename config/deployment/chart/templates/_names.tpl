{{- define "kraft.labels" -}}
{app: {{ .Release.Name }}}
{{- end -}}
{{- define "kraft.voters" -}}
{{- $name := .Release.Name -}}
{{- range $id := until (int .Values.nodes) -}}
{{- if $id }},{{ end -}}
{{ $id }}@{{ $name }}-{{ $id }}.{{ $name }}-nodes:9093
{{- end -}}
{{- end -}}
{{- define "kraft.protocol" -}}
{{ if .Values.tls.enabled }}SSL{{ else }}PLAINTEXT{{ end }}
{{- end -}}
{{- define "kraft.scheme" -}}
{{- if .Values.tls.enabled }}, scheme: HTTPS{{ end -}}
{{- end -}}
