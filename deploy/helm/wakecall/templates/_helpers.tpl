{{- define "wakecall.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "wakecall.fullname" -}}
{{- $name := include "wakecall.name" . }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- /* Names of pods are at most 63 bytes, and "-dispatcher-0" comes behind this. */}}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "wakecall.selector" -}}
app.kubernetes.io/name: {{ include "wakecall.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "wakecall.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "wakecall.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "wakecall.serviceAccount" -}}
{{- default (ternary (include "wakecall.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- /* The gateways that are on: "NAME KEY PORT" by line. */}}
{{- define "wakecall.gateways" -}}
{{- $keys := dict "lmstfy" "lmstfy.addr" "lmstfyAdmin" "lmstfy.admin_addr" "phpdq" "phpdq.addr"
  "delayqueue" "delayqueue.addr" "grape" "grape.addr" "grapeWeb" "grape.web_addr" "beanstalk" "beanstalk.addr" }}
{{- range $name, $port := .Values.gateways }}
{{- if $port }}
{{ kebabcase $name }} {{ get $keys $name }} {{ int $port }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Keys of config that the chart sets itself, or that would put a secret into a ConfigMap. */}}
{{- define "wakecall.refuse" -}}
{{- $instead := dict
  "data_dir" "the volume is mounted where the image expects it"
  "shutdown_timeout" "set shutdownSeconds, which the pods' termination follows"
  "journal.dir" "the journal is in the pods' volumes"
  "server.addr" "set service.api.port"
  "admin.addr" "set service.admin.port"
  "metrics.addr" "it is the pods' port metrics"
  "server.first_token" "put it into a Secret and name that in secrets.firstToken"
  "admin.first_password" "put it into a Secret and name that in secrets.firstPassword"
  "registry.dsn" "put it into a Secret and name that in secrets.registryDSN"
  "registry.seal_key" "put it into a Secret and name that in secrets.sealKey"
  "registry.seal_key_file" "put the key into a Secret and name that in secrets.sealKey"
  "gateways.lmstfy.addr" "set gateways.lmstfy to a port"
  "gateways.lmstfy.admin_addr" "set gateways.lmstfyAdmin to a port"
  "gateways.phpdq.addr" "set gateways.phpdq to a port"
  "gateways.delayqueue.addr" "set gateways.delayqueue to a port"
  "gateways.grape.addr" "set gateways.grape to a port"
  "gateways.grape.web_addr" "set gateways.grapeWeb to a port"
  "gateways.beanstalk.addr" "set gateways.beanstalk to a port" }}
{{- range $key, $way := $instead }}
{{- $at := $.Values.config }}
{{- range splitList "." $key }}
{{- $at = ternary (get (ternary $at dict (kindIs "map" $at)) .) "" (kindIs "map" $at) }}
{{- end }}
{{- if $at }}
{{- fail (printf "config.%s: the chart sets it: %s" $key $way) }}
{{- end }}
{{- end }}
{{- $redis := .Values.config.redis | default dict }}
{{- if regexMatch "://[^/]*:[^/@]*@|_password=" (join "," $redis.nodes) }}
{{- fail "config.redis.nodes: a URL has a password: put it into a Secret and name that in secrets.redisNodes" }}
{{- end }}
{{- if and $redis.nodes .Values.secrets.redisNodes.name }}
{{- fail "config.redis.nodes and secrets.redisNodes.name: set one of them (the name to \"\")" }}
{{- end }}
{{- if not (or $redis.nodes .Values.secrets.redisNodes.name) }}
{{- fail "secrets.redisNodes.name: required, or config.redis.nodes: the pods share your Redis servers" }}
{{- end }}
{{- range $name := list "registryDSN" "sealKey" }}
{{- if not (get $.Values.secrets $name).name }}
{{- fail (printf "secrets.%s.name: required: the pods share it" $name) }}
{{- end }}
{{- end }}
{{- if and .Values.keda.enabled (not .Values.dispatcher.enabled) }}
{{- fail "keda.enabled: set dispatcher.enabled, too: KEDA scales the dispatcher pods" }}
{{- end }}
{{- if and .Values.keda.enabled (not .Values.keda.prometheus) }}
{{- fail "keda.prometheus: required: the address of the Prometheus that scrapes the pods" }}
{{- end }}
{{- if gt (int .Values.keda.minReplicas) (int .Values.keda.maxReplicas) }}
{{- fail (printf "keda.minReplicas: %d is more than keda.maxReplicas, %d" (int .Values.keda.minReplicas) (int .Values.keda.maxReplicas)) }}
{{- end }}
{{- end }}

{{- /* wakecall.yaml */}}
{{- define "wakecall.config" -}}
{{- include "wakecall.refuse" . }}
{{- $config := deepCopy .Values.config }}
{{- $_ := set $config "shutdown_timeout" (printf "%ds" (int .Values.shutdownSeconds)) }}
{{- /* In a values file, off and on are false and true. */}}
{{- if kindIs "bool" (get $config "spool") }}
{{- $_ := set $config "spool" (ternary "on" "off" $config.spool) }}
{{- end }}
{{- range splitList "\n" (include "wakecall.gateways" . | trim) }}
{{- if . }}
{{- $part := splitList " " . }}
{{- $key := splitList "." (index $part 1) }}
{{- $section := dict (index $key 1) (printf "0.0.0.0:%s" (index $part 2)) }}
{{- $_ := set $config "gateways" (merge (dict (index $key 0) $section) ($config.gateways | default dict)) }}
{{- end }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* A pod. In: root, component, role, resources, serves. */}}
{{- define "wakecall.pod" -}}
{{- $root := .root }}
{{- $v := .root.Values }}
{{- $pause := ternary (int $v.preStopSeconds) 0 .serves }}
metadata:
  labels:
    {{- include "wakecall.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # New pods for a new configuration.
    checksum/config: {{ include "wakecall.config" $root | sha256sum }}
    {{- with $v.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "wakecall.serviceAccount" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add (int $v.shutdownSeconds) $pause 15 }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $v.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml $v.podSecurityContext | nindent 4 }}
  containers:
    - name: wakecall
      image: "{{ $v.image.repository }}:{{ $v.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [wakecall, {{ .role }}]
      env:
        - name: WAKECALL_CONFIG
          value: /etc/wakecall/wakecall.yaml
        # The image sets these, too, and the environment overrides the file.
        - name: WAKECALL_DATA_DIR
          value: /var/lib/wakecall
        - name: WAKECALL_LOG_FORMAT
          value: {{ dig "log" "format" "json" $v.config | quote }}
        - name: WAKECALL_SERVER_ADDR
          value: ":6789"
        - name: WAKECALL_ADMIN_ADDR
          value: ":8088"
        - name: WAKECALL_METRICS_ADDR
          value: ":9789"
        {{- range $name, $variable := include "wakecall.secrets" $root | fromYaml }}
        - name: {{ $variable }}
          value: /run/wakecall/secrets/{{ $name }}
        {{- end }}
        {{- with $v.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        {{- if .serves }}
        - { name: api, containerPort: 6789 }
        - { name: admin, containerPort: 8088 }
        {{- range splitList "\n" (include "wakecall.gateways" $root | trim) }}
        {{- if . }}
        {{- $part := splitList " " . }}
        - { name: {{ index $part 0 }}, containerPort: {{ index $part 2 }} }
        {{- end }}
        {{- end }}
        {{- end }}
        - { name: metrics, containerPort: 9789 }
      # Until every process has been ready once, a rollout does not go on to the next pod.
      startupProbe:
        exec: { command: [wakecall, health] }
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 60
      {{- if .serves }}
      # Whether the API answers. A pod whose dispatchers crash still takes pushes: if they crash on every pod, no other
      # would take them.
      {{- end }}
      readinessProbe:
        exec: { command: [wakecall, health{{ if .serves }}, --role, server{{ end }}] }
        periodSeconds: 10
        timeoutSeconds: 5
      # Only whether the first process answers at all: it restarts the others itself, and while Redis or the database is
      # away a restart would end callbacks and help nobody.
      livenessProbe:
        httpGet: { path: /healthz, port: metrics }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      {{- if $pause }}
      lifecycle:
        preStop:
          sleep: { seconds: {{ $pause }} }
      {{- end }}
      resources:
        {{- toYaml .resources | nindent 8 }}
      securityContext:
        {{- toYaml $v.securityContext | nindent 8 }}
      volumeMounts:
        - { name: data, mountPath: /var/lib/wakecall }
        - { name: config, mountPath: /etc/wakecall, readOnly: true }
        - { name: secrets, mountPath: /run/wakecall/secrets, readOnly: true }
        {{- with $v.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: { name: {{ include "wakecall.fullname" $root }} }
    - name: secrets
      projected:
        defaultMode: 0440
        sources:
          {{- range $name, $_ := include "wakecall.secrets" $root | fromYaml }}
          {{- $secret := get $v.secrets $name }}
          - secret:
              name: {{ $secret.name }}
              items: [{ key: {{ $secret.key }}, path: {{ $name }} }]
          {{- end }}
    {{- with $v.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $v.spread }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $v.spread }}
      labelSelector:
        matchLabels:
          {{- include "wakecall.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ $.component }}
    {{- end }}
  {{- end }}
  {{- with $v.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* The secrets that are given, and the variables that name their files. */}}
{{- define "wakecall.secrets" -}}
{{- $variables := dict "redisNodes" "WAKECALL_REDIS_NODES_FILE" "registryDSN" "WAKECALL_REGISTRY_DSN_FILE"
  "sealKey" "WAKECALL_REGISTRY_SEAL_KEY_FILE" "firstToken" "WAKECALL_SERVER_FIRST_TOKEN_FILE"
  "firstPassword" "WAKECALL_ADMIN_FIRST_PASSWORD_FILE" }}
{{- range $name, $secret := .Values.secrets }}
{{- if $secret.name }}
{{ $name }}: {{ get $variables $name }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A claim for the volume of each pod. In: root, size. */}}
{{- define "wakecall.claims" -}}
podManagementPolicy: Parallel
# A pod that returns replays its journal. Without the journal, a Redis that lost everything waits until somebody runs
# wakecall host forget.
persistentVolumeClaimRetentionPolicy: { whenScaled: Retain, whenDeleted: Retain }
volumeClaimTemplates:
  - metadata:
      name: data
      labels:
        {{- include "wakecall.selector" .root | nindent 8 }}
    spec:
      accessModes:
        {{- toYaml .root.Values.persistence.accessModes | nindent 8 }}
      {{- with .root.Values.persistence.storageClass }}
      storageClassName: {{ . }}
      {{- end }}
      resources: { requests: { storage: {{ .size }} } }
{{- end }}
