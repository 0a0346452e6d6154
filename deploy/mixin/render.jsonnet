// The rendered files by name: see `make mixin`.
local mixin = import 'mixin.libsonnet';
local yaml(x) = std.manifestYamlDoc(x, indent_array_in_object=true, quote_keys=false);

{
  'alerts.yaml': yaml(mixin.prometheusAlerts),
  'rules.yaml': yaml(mixin.prometheusRules),
} + {
  ['dashboards/' + name]: std.manifestJsonEx(mixin.grafanaDashboards[name], '  ')
  for name in std.objectFields(mixin.grafanaDashboards)
}
