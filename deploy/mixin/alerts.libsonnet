// Alerts that a person must act on. Each has a section in docs/operations/runbooks.md.
{
  local c = $._config,

  local alert(name, severity, wait, expr, summary, description) = {
    alert: name,
    expr: expr,
    'for': wait,
    labels: { severity: severity },
    annotations: {
      summary: summary,
      description: description,
      runbook_url: c.runbooks + std.asciiLower(name),
    },
  },
  local critical(name, wait, expr, summary, description) = alert(name, 'critical', wait, expr, summary, description),
  local warning(name, wait, expr, summary, description) = alert(name, 'warning', wait, expr, summary, description),

  prometheusAlerts+:: {
    groups+: [
      {
        name: 'wakecall.hosts',
        rules: [
          critical(
            'WakecallTargetDown',
            '5m',
            'up{%(targets)s} == 0' % c,
            'Wakecall on {{ $labels.instance }} is not scraped.',
            'Prometheus has had no metrics from {{ $labels.instance }} for 5 minutes: the host, Wakecall or the network is down.',
          ),
          critical(
            'WakecallNoChecker',
            '5m',
            'absent(wakecall_redis_up)',
            'No redis-checker of Wakecall is running.',
            'No host reports the state of its shards. Either no redis-checker runs, or none of its targets is scraped, or the installation has no shard.',
          ),
          warning(
            'WakecallProcessDown',
            '5m',
            'wakecall_process_up == 0 or wakecall_process_silent == 1',
            'The process {{ $labels.process }} on {{ $labels.instance }} does not run or does not answer.',
            'The process {{ $labels.process }} on {{ $labels.instance }} has not run, or has not answered its master, for 5 minutes.',
          ),
          warning(
            'WakecallProcessRestarting',
            '0m',
            'increase(wakecall_process_restarts_total[15m]) > 3',
            'The process {{ $labels.process }} on {{ $labels.instance }} restarts again and again.',
            'The process {{ $labels.process }} on {{ $labels.instance }} has restarted {{ $value | printf "%.0f" }} times in 15 minutes.',
          ),
          critical(
            'WakecallJournalNotWritten',
            '1m',
            'min by (%(installation)s, instance) (wakecall_journal_writable) == 0' % c,
            'The journal on {{ $labels.instance }} cannot be written.',
            'A process on {{ $labels.instance }} cannot write to its journal. If it is the file of requests, pushes to this host are answered 503.',
          ),
          warning(
            'WakecallJournalDiskFilling',
            '15m',
            |||
              wakecall_journal_disk_free_bytes / wakecall_journal_disk_bytes < 0.05
              or (
                wakecall_journal_disk_free_bytes / wakecall_journal_disk_bytes < 0.2
                and predict_linear(wakecall_journal_disk_free_bytes[6h], 86400) < 0
              )
            |||,
            'The disk of the journal on {{ $labels.instance }} is filling.',
            "{{ $value | humanizePercentage }} of the journal's disk on {{ $labels.instance }} is free. When it is full, pushes to this host are answered 503.",
          ),
          warning(
            'WakecallDatabaseDown',
            '10m',
            'min by (%(installation)s, instance) (wakecall_registry_up) == 0' % c,
            "The registry's database does not answer {{ $labels.instance }}.",
            'The database has not answered a process on {{ $labels.instance }} for 10 minutes. Jobs go on; topics cannot be edited, and nobody can log in.',
          ),
          warning(
            'WakecallCertificateExpires',
            '1h',
            'wakecall_certificate_expiry_timestamp_seconds - time() < 14 * 86400',
            'The certificate of the {{ $labels.listener }} on {{ $labels.instance }} expires soon.',
            'The certificate of the {{ $labels.listener }} on {{ $labels.instance }} expires in {{ $value | humanizeDuration }}.',
          ),
          warning(
            'WakecallAlertsNotSent',
            '0m',
            'sum by (%(installation)s, channel) (increase(wakecall_alert_deliveries_total{state="failed"}[15m])) > 0' % c,
            'Wakecall cannot send its own alerts by {{ $labels.channel }}.',
            '{{ $value | printf "%.0f" }} messages about Wakecall\'s own alerts by {{ $labels.channel }} have failed in 15 minutes.',
          ),
        ],
      },
      {
        name: 'wakecall.shards',
        rules: [
          critical(
            'WakecallShardDown',
            '1m',
            'max by (%(installation)s, shard, finding) (wakecall_shard_finding{finding=~"down|partial|forbidden"}) == 1' % c,
            'The shard {{ $labels.shard }} is {{ $labels.finding }}.',
            'The jobs of the shard {{ $labels.shard }} wait: a host finds it {{ $labels.finding }}.',
          ),
          critical(
            'WakecallRedisMayLoseJobs',
            '5m',
            'max by (%(installation)s, shard, finding) (wakecall_shard_finding{finding=~"eviction|write_error|link_down"}) == 1' % c,
            'The Redis of the shard {{ $labels.shard }} may lose jobs: {{ $labels.finding }}.',
            'The redis-checker finds {{ $labels.finding }} on the shard {{ $labels.shard }}.',
          ),
          critical(
            'WakecallRedisMemoryFull',
            '5m',
            |||
              max by (%(installation)s, shard) (wakecall_redis_memory_bytes)
              / (max by (%(installation)s, shard) (wakecall_redis_max_memory_bytes) > 0)
              > %(memoryShare)g
            ||| % c,
            'The Redis of the shard {{ $labels.shard }} is nearly full.',
            'The shard {{ $labels.shard }} uses {{ $value | humanizePercentage }} of its maxmemory. When it is full, it refuses pushes.',
          ),
          warning(
            'WakecallClockJumped',
            '0m',
            'max by (%(installation)s, shard, finding) (max_over_time(wakecall_shard_finding{finding=~"clock|stepped"}[5m])) == 1' % c,
            'The clock of the shard {{ $labels.shard }} is wrong.',
            'The clock of the Redis {{ $labels.shard }} jumped, or is more than two seconds off ({{ $labels.finding }}). Jobs become due by this clock.',
          ),
          warning(
            'WakecallRecoveryLong',
            '0m',
            'max by (%(installation)s, instance, shard) (wakecall_recovery_duration_seconds) > 600' % c,
            'The recovery of the shard {{ $labels.shard }} takes long.',
            '{{ $labels.instance }} has been replaying its journal into the shard {{ $labels.shard }} for {{ $value | humanizeDuration }}.',
          ),
          warning(
            'WakecallHostAbsent',
            '5m',
            'max by (%(installation)s, shard, host) (wakecall_absent_host) == 1' % c,
            'The shard {{ $labels.shard }} waits for the journal of the host {{ $labels.host }}.',
            'Only the journal of {{ $labels.host }} may have some jobs of the shard {{ $labels.shard }}. Requests for ids that the shard does not have are answered 503.',
          ),
          warning(
            'WakecallSpoolWaits',
            '5m',
            'max by (%(installation)s, instance) (wakecall_spool_pending) == 1' % c,
            'Pushes wait in the spool of {{ $labels.instance }}.',
            '{{ $labels.instance }} has accepted pushes that no shard has. They wait in its journal, and are not called until a shard accepts them.',
          ),
        ],
      },
      {
        name: 'wakecall.jobs',
        rules: [
          critical(
            'WakecallPushesFail',
            '5m',
            |||
              sum by (%(installation)s) (rate(wakecall_pushes_total{result=~"unavailable|error"}[5m]))
              / sum by (%(installation)s) (rate(wakecall_pushes_total[5m]))
              > 0.01
            ||| % c,
            'Wakecall refuses pushes.',
            '{{ $value | humanizePercentage }} of the pushed jobs were refused because no shard or journal accepted them.',
          ),
        ] + [
          critical(
            'WakecallCallbacksLate',
            wait,
            |||
              wakecall:late_callbacks:ratio_rate%(long)s > %(factor)g * %(budget)g
              and wakecall:late_callbacks:ratio_rate%(short)s > %(factor)g * %(budget)g
            ||| % (window { budget: 1 - c.objective }),
            'Too many first callbacks are late.',
            '{{ $value | humanizePercentage }} of the first callbacks of the last %s were more than %s seconds late; the objective is %g %%.'
            % [window.long, c.within, 100 - 100 * c.objective],
          ) { labels+: { window: window.long } }
          for window in [{ long: '1h', short: '5m', factor: 14.4 }, { long: '6h', short: '30m', factor: 6 }]
          for wait in [if window.long == '1h' then '2m' else '15m']
        ] + [
          critical(
            'WakecallTopicStuck',
            '5m',
            'wakecall:problem:max{kind=~"no_consumer|no_worker|topic_unknown"} == 1',
            'Nobody takes the jobs of {{ $labels.topic }}.',
            'The ready jobs of the topic {{ $labels.topic }} are not called or reserved ({{ $labels.kind }}).',
          ),
          warning(
            'WakecallBreakerOpen',
            '15m',
            'wakecall:problem:max{kind="breaker"} == 1',
            'The endpoint of {{ $labels.topic }} does not answer.',
            'The circuit breaker of the topic {{ $labels.topic }} has been open for 15 minutes: its jobs wait, with one call at a time as a probe.',
          ),
          warning(
            'WakecallTopicLate',
            '10m',
            'wakecall:problem:max{kind="late"} == 1',
            'Jobs of {{ $labels.topic }} are late.',
            'The jobs of the topic {{ $labels.topic }} have been later than its objective for 10 minutes.',
          ),
          warning(
            'WakecallBacklogGrows',
            '15m',
            'max by (%(installation)s, topic) (wakecall_backlog_clear_seconds) > 86400' % c,
            'The backlog of {{ $labels.topic }} will not be cleared.',
            'More jobs of the topic {{ $labels.topic }} fall due than are called, or the backlog takes more than a day.',
          ),
          warning(
            'WakecallDeadLettersGrow',
            '0m',
            'delta(wakecall:jobs:max{state="dead"}[30m]) > %(deadJobs)d' % c,
            'Jobs of {{ $labels.topic }} die.',
            '{{ $value | printf "%.0f" }} jobs of the topic {{ $labels.topic }} have died in 30 minutes. They are kept, but nobody calls them.',
          ),
        ],
      },
    ],
  },
}
