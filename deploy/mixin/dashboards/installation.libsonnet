local p = import 'panels.libsonnet';

function(c)
  local by = c.installation, s = '%s="$installation"' % by, at = p.at;
  local topicLink = { fieldConfig+: { defaults+: { links: [{
    title: 'Topic ${__field.labels.topic}',
    url: '/d/wakecall-topic?${datasource:queryparam}&${installation:queryparam}&var-topic=${__field.labels.topic}&${__url_time_range}',
  }] } } };

  p.board(
    'wakecall-installation',
    'Wakecall / Installation',
    'Is Wakecall well, and if not, where is the problem?',
    [p.query('installation', 'Installation', 'label_values(wakecall_build_info, %s)' % by)],
    [
      p.stat(
        'Problems',
        'Problems that Wakecall itself has found; they are listed below.',
        'none',
        'count(wakecall:problem:max{%s, severity!="info"}) or vector(0)' % s,
        1
      ) + at(0, 0, 4, 4),
      p.stat(
        'Ready jobs',
        'Jobs that are due and wait to be called.',
        'short',
        'sum(wakecall:jobs:max{%s, state="ready"})' % s
      ) + at(4, 0, 4, 4),
      p.stat(
        'Oldest ready job',
        'How long the job that waits longest has been due. Paused topics count, too.',
        's',
        'max(wakecall:oldest_ready_seconds:max{%s})' % s,
        60,
        600
      ) + at(8, 0, 4, 4),
      p.stat(
        'Lateness, p99',
        'From the due time to the first callback, of the last 5 minutes.',
        's',
        p.quantile(0.99, 'wakecall_callback_lateness_seconds', s, '5m'),
        1,
        5
      ) + at(12, 0, 4, 4),
      p.stat(
        'Dead jobs',
        'Jobs that nobody calls anymore.',
        'short',
        'sum(wakecall:jobs:max{%s, state="dead"})' % s,
        1
      ) + at(16, 0, 4, 4),
      p.stat(
        'Shards down',
        'Shards that do not answer some host.',
        'none',
        'count(min by (shard) (wakecall_redis_up{%s}) == 0) or vector(0)' % s,
        null,
        1
      ) + at(20, 0, 4, 4),

      p.lines(
        'Pushes',
        'How many jobs come in, and are they accepted?',
        'cps',
        [['sum by (result) (rate(wakecall_pushes_total{%s}[$__rate_interval]))' % s, '{{result}}']],
        stack=true
      ) + at(0, 4, 12, 8),
      p.lines(
        'Callbacks',
        'How many jobs are called, and how do the calls end?',
        'cps',
        [['sum by (outcome) (rate(wakecall_callbacks_total{%s}[$__rate_interval]))' % s, '{{outcome}}']],
        stack=true
      ) + at(12, 4, 12, 8),
      p.lines(
        'Lateness',
        'Are first callbacks on time?',
        's',
        [
          [p.quantile(q, 'wakecall_callback_lateness_seconds', s, '$__rate_interval'), 'p%g' % (100 * q)]
          for q in [0.5, 0.99, 0.999]
        ]
      ) + at(0, 12, 12, 8),
      p.lines(
        'Jobs that do not come to an end',
        'Does a backlog grow? Delayed jobs are left out: they are as they should be.',
        'short',
        [['sum by (state) (wakecall:jobs:max{%s, state!="delayed"})' % s, '{{state}}']]
      ) + at(12, 12, 12, 8),
      p.lines(
        'Topics that wait longest',
        'Whose jobs are late?',
        's',
        [['topk(10, wakecall:oldest_ready_seconds:max{%s})' % s, '{{topic}}']]
      ) + topicLink + at(0, 20, 12, 8),
      p.lines(
        'Failures by topic',
        'Whose endpoints fail?',
        'cps',
        [['topk(10, sum by (topic) (rate(wakecall_callbacks_total{%s, outcome=~"retry|dead|expired"}[$__rate_interval])))' % s, '{{topic}}']]
      ) + topicLink + at(12, 20, 12, 8),
      p.table(
        'Open problems',
        'What has Wakecall itself found? Its web admin says more.',
        'wakecall:problem:max{%s}' % s,
        [['severity', 'Severity'], ['kind', 'Problem'], ['topic', 'Topic'], ['shard', 'Shard'], ['host', 'Host']]
      ) + at(0, 28, 24, 7),

      p.lines(
        'Memory of shards',
        'How full are the shards? Shards without maxmemory are left out.',
        'percentunit',
        [['max by (shard) (wakecall_redis_memory_bytes{%s}) / (max by (shard) (wakecall_redis_max_memory_bytes{%s}) > 0)' % [s, s], '{{shard}}']],
        max=1
      ) + at(0, 35, 8, 8),
      p.lines(
        'Jobs by shard',
        'Are the jobs spread evenly?',
        'short',
        [['max by (shard) (wakecall_redis_jobs{%s})' % s, '{{shard}}']]
      ) + at(8, 35, 8, 8),
      p.lines(
        'Ping of shards',
        'Is Redis slow, or the network to it?',
        's',
        [['max by (shard) (wakecall_redis_ping_duration_seconds{%s})' % s, '{{shard}}']]
      ) + at(16, 35, 8, 8),

      p.lines(
        'API requests',
        'Does the API answer quickly?',
        's',
        [['histogram_quantile(0.99, sum by (le, route) (rate(wakecall_http_request_duration_seconds_bucket{%s, route!~".*take.*"}[$__rate_interval])))' % s, '{{route}}']]
      ) + at(0, 43, 8, 8),
      p.lines(
        'Calls in progress',
        'Are there enough dispatchers?',
        'short',
        [
          ['sum(wakecall_dispatcher_in_flight{%s})' % s, 'in progress'],
          ['sum(wakecall_dispatcher_in_flight{%s}) + sum(wakecall_dispatcher_free_places{%s})' % [s, s], 'possible'],
        ]
      ) + at(8, 43, 8, 8),
      p.lines(
        'Free disk of journals',
        'How long can hosts keep their journals?',
        'percentunit',
        [['min by (instance) (wakecall_journal_disk_free_bytes{%s} / wakecall_journal_disk_bytes{%s})' % [s, s], '{{instance}}']],
        max=1
      ) + at(16, 43, 8, 8),

      p.lines(
        'CPU of processes',
        'Which process is busy? 1 is a core.',
        'none',
        [['sum by (instance, process) (rate(process_cpu_seconds_total{%s, process!=""}[$__rate_interval]))' % s, '{{instance}} {{process}}']]
      ) + at(0, 51, 8, 8),
      p.lines(
        'Memory of processes',
        'Does a process grow?',
        'bytes',
        [['max by (instance, process) (process_resident_memory_bytes{%s, process!=""})' % s, '{{instance}} {{process}}']]
      ) + at(8, 51, 8, 8),
      p.table(
        'Versions',
        'Does every process run the same version?',
        'count by (instance, version) (wakecall_build_info{%s})' % s,
        [['instance', 'Host'], ['version', 'Version']],
        value='Processes'
      ) + at(16, 51, 8, 8),
    ]
  )
