// The few kinds of panels that the boards have. An expression may contain $installation, the selector of the board's
// installation.
local datasource = { type: 'prometheus', uid: '${datasource}' };

{
  // A quantile of a histogram, whose buckets Prometheus scrapes as classic or as native ones.
  quantile(q, histogram, selector, window)::
    'histogram_quantile(%(q)s, sum by (le) (rate(%(h)s_bucket{%(s)s}[%(w)s]))) or histogram_quantile(%(q)s, sum(rate(%(h)s{%(s)s}[%(w)s])))'
    % { q: q, h: histogram, s: selector, w: window },

  board(uid, title, description, variables, panels, links=[]):: {
    uid: uid,
    title: title,
    description: description,
    tags: ['wakecall'],
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    schemaVersion: 39,
    time: { from: 'now-3h', to: 'now' },
    timezone: 'browser',
    links: [{ type: 'dashboards', title: 'Wakecall', tags: ['wakecall'], asDropdown: true, keepTime: true, includeVars: true }] + links,
    templating: { list: [
      { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' },
    ] + variables },
    annotations: { list: [] },
    panels: [p { id: i + 1 } for i in std.range(0, std.length(panels) - 1) for p in [panels[i]]],
  },

  // query returns a variable with the values of a label.
  query(name, label, query):: {
    name: name,
    label: label,
    type: 'query',
    datasource: datasource,
    definition: query,
    query: { query: query, refId: name },
    refresh: 2,
    sort: 1,
  },

  // at places a panel: column and row of its upper left corner, width and height, of 24 columns.
  at(x, y, w, h):: { gridPos: { x: x, y: y, w: w, h: h } },

  target(expr, legend='', id='A', instant=false):: {
    datasource: datasource,
    expr: expr,
    legendFormat: legend,
    refId: id,
    instant: instant,
    range: !instant,
    format: if instant then 'table' else 'time_series',
  },

  // red and orange from limits on; null: never.
  local thresholds(orange, red) = {
    mode: 'absolute',
    steps: [{ color: 'green', value: null }]
           + (if orange == null then [] else [{ color: 'orange', value: orange }])
           + (if red == null then [] else [{ color: 'red', value: red }]),
  },

  local panel(kind, title, description, unit, targets) = {
    type: kind,
    title: title,
    description: description,
    datasource: datasource,
    targets: targets,
    fieldConfig: { defaults: { unit: unit }, overrides: [] },
  },

  stat(title, description, unit, expr, orange=null, red=null)::
    panel('stat', title, description, unit, [$.target(expr)]) + {
      fieldConfig+: { defaults+: { thresholds: thresholds(orange, red) } },
      options: { colorMode: 'value', graphMode: 'area', reduceOptions: { calcs: ['lastNotNull'] } },
    },

  // lines; expressions is a list of [expression, legend].
  lines(title, description, unit, expressions, stack=false, max=null)::
    panel('timeseries', title, description, unit, [
      $.target(expressions[i][0], expressions[i][1], std.char(65 + i))
      for i in std.range(0, std.length(expressions) - 1)
    ]) + {
      fieldConfig+: { defaults+: {
        min: 0,
        [if max != null then 'max']: max,
        custom: { fillOpacity: if stack then 30 else 0, showPoints: 'never', stacking: { mode: if stack then 'normal' else 'none' } },
      } },
      options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
    },

  // table of the labels of an instant expression; columns maps labels to titles, in order.
  table(title, description, expr, columns, unit='none', value=null)::
    panel('table', title, description, unit, [$.target(expr, '', 'A', true)]) + {
      transformations: [{
        id: 'organize',
        options: {
          excludeByName: { Time: true, [if value == null then 'Value']: true, job: true },
          indexByName: { [columns[i][0]]: i for i in std.range(0, std.length(columns) - 1) },
          renameByName: { [c[0]]: c[1] for c in columns } + { [if value != null then 'Value']: value },
        },
      }],
    },
}
