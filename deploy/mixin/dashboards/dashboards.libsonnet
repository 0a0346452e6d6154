{
  grafanaDashboards+:: {
    'installation.json': (import 'installation.libsonnet')($._config),
    'topic.json': (import 'topic.libsonnet')($._config),
  },
}
