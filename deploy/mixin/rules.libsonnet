// What is the same for the whole installation comes from one host at a time. Without the label of the host its history
// goes on when another host takes over. max, because while only that host is cut off from the database, there are two.
{
  local c = $._config,
  prometheusRules+:: {
    groups+: [{
      name: 'wakecall.rules',
      rules: [
        {
          record: 'wakecall:jobs:max',
          expr: 'max by (%s, topic, state) (wakecall_jobs)' % c.installation,
        },
        {
          record: 'wakecall:oldest_ready_seconds:max',
          expr: 'max by (%s, topic) (wakecall_oldest_ready_seconds)' % c.installation,
        },
        {
          record: 'wakecall:problem:max',
          expr: 'max by (%s, kind, severity, topic, shard, host) (wakecall_problem)' % c.installation,
        },
      ] + [
        {
          record: 'wakecall:late_callbacks:ratio_rate' + window,
          expr: |||
            1 - (
              sum by (%(installation)s) (rate(wakecall_callback_lateness_seconds_bucket{le="%(within)s"}[%(window)s]))
              /
              sum by (%(installation)s) (rate(wakecall_callback_lateness_seconds_count[%(window)s]))
            )
            or
            1 - histogram_fraction(
              -Inf, %(within)s, sum by (%(installation)s) (rate(wakecall_callback_lateness_seconds[%(window)s]))
            )
          ||| % c { window: window },
        }
        for window in ['5m', '30m', '1h', '6h']
      ],
    }],
  },
}
