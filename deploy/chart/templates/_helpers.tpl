{{/* The beginning of all names, and labels. */}}
{{- define "batchfleet.name" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 32 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels of a component. Arguments: root, component. */}}
{{- define "batchfleet.selector" -}}
app.kubernetes.io/name: batchfleet
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}
{{- define "batchfleet.labels" -}}
{{ include "batchfleet.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{/* An image. Arguments: root, image: what replaces that of the chart. */}}
{{- define "batchfleet.image" -}}
{{- $own := .image | default dict -}}
{{- $repository := $own.repository | default .root.Values.image.repository -}}
{{- $tag := $own.tag | default .root.Values.image.tag | default .root.Chart.AppVersion -}}
{{ $repository }}:{{ $tag }}
{{- end -}}

{{/* The settings of a pool of workers as YAML: its own over the defaults. Arguments: root, own. */}}
{{- define "batchfleet.worker" -}}
{{- mergeOverwrite (deepCopy .root.Values.workerDefaults) (deepCopy (.own | default dict)) | toYaml -}}
{{- end -}}

{{/* Security of a pod and of a container: as in the image, nothing can be written but volumes. */}}
{{- define "batchfleet.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}
{{- define "batchfleet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* Where the scheduler may put a pod. The argument has the settings of a component. */}}
{{- define "batchfleet.placement" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $ $key }}
{{ $key }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The variables that say which Redis, storage and Pub/Sub; the argument is the root. */}}
{{- define "batchfleet.stores" -}}
{{- with .Values.redis.url }}
REDIS_URL: {{ . | quote }}
{{- end }}
{{- with .Values.redis.host }}
REDIS_HOST: {{ . | quote }}
{{- end }}
{{- if .Values.storage.bucket }}
STORAGE_TYPE: {{ .Values.storage.type }}
{{- if eq .Values.storage.type "GCP" }}
GCS_BUCKET_NAME: {{ .Values.storage.bucket | quote }}
{{- else }}
S3_BUCKET_NAME: {{ .Values.storage.bucket | quote }}
{{- with .Values.storage.s3.endpoint }}
S3_ENDPOINT: {{ . | quote }}
{{- end }}
{{- with .Values.storage.s3.region }}
S3_REGION: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.pubsub.project }}
GCP_PROJECT_ID: {{ . | quote }}
PUBSUB_TOPIC: {{ $.Values.pubsub.topic | quote }}
{{- with $.Values.pubsub.deadLetterTopic }}
DEAD_LETTER_TOPIC: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Variables from secrets, as items of env; the argument is the root. */}}
{{- define "batchfleet.secrets" -}}
{{- with .Values.redis.existingSecret }}
- name: REDIS_PASSWORD
  valueFrom: { secretKeyRef: { name: {{ . }}, key: REDIS_PASSWORD } }
- name: REDIS_USERNAME
  valueFrom: { secretKeyRef: { name: {{ . }}, key: REDIS_USERNAME, optional: true } }
{{- end }}
{{- with .Values.storage.existingSecret }}
- name: AWS_ACCESS_KEY_ID
  valueFrom: { secretKeyRef: { name: {{ . }}, key: AWS_ACCESS_KEY_ID } }
- name: AWS_SECRET_ACCESS_KEY
  valueFrom: { secretKeyRef: { name: {{ . }}, key: AWS_SECRET_ACCESS_KEY } }
{{- end }}
{{- end -}}

{{/* Variables of values as items of env; the argument is a map. A large number would be written as 1e+06. */}}
{{- define "batchfleet.env" -}}
{{- range $name, $value := . }}
{{- $whole := and (kindIs "float64" $value) (eq $value (floor $value)) }}
- { name: {{ $name }}, value: {{ ternary (int64 $value) $value $whole | toString | quote }} }
{{- end }}
{{- end -}}

{{/* What a gateway and the workers that lease from its Redis must have the same, of gateway.env; the argument is the root. */}}
{{- define "batchfleet.shared" -}}
{{- pick .Values.gateway.env "LEASE_TTL" "LEASE_SKEW" "JOB_TIMEOUT" "MAX_RETRIES" "RESULT_TTL" | toYaml -}}
{{- end -}}
