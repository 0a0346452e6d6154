local p = import 'panels.libsonnet';

function(c)
  local by = c.installation, s = '%s="$installation", topic="$topic"' % by, at = p.at;

  p.board(
    'wakecall-topic',
    'Wakecall / Topic',
    'How are the jobs of one topic, or of a namespace, doing?',
    [
      p.query('installation', 'Installation', 'label_values(wakecall_build_info, %s)' % by),
      p.query('topic', 'Topic', 'label_values(wakecall_jobs{%s="$installation"}, topic)' % by),
    ],
    [
      p.stat(
        'Ready jobs',
        'Jobs that are due and wait to be called.',
        'short',
        'sum(wakecall:jobs:max{%s, state="ready"})' % s
      ) + at(0, 0, 5, 4),
      p.stat(
        'Oldest ready job',
        'How long the job that waits longest has been due.',
        's',
        'max(wakecall:oldest_ready_seconds:max{%s})' % s,
        60,
        600
      ) + at(5, 0, 5, 4),
      p.stat(
        'Backlog cleared in',
        'When the ready jobs will have been called. 0: no backlog, or it is unknown. Infinite: it grows, or takes more than a day.',
        's',
        'max(wakecall_backlog_clear_seconds{%s}) or vector(0)' % s,
        600,
        86400
      ) + at(10, 0, 5, 4),
      p.stat(
        'Successful calls',
        'Of the callbacks of the last 15 minutes. A call that asks to be called again later counts as one.',
        'percentunit',
        '1 - (sum(rate(wakecall_callbacks_total{%s, outcome=~"retry|dead|expired"}[15m])) or vector(0)) / sum(rate(wakecall_callbacks_total{%s, outcome!="released"}[15m]))' % [s, s]
      ) + at(15, 0, 5, 4),
      p.stat(
        'Dead jobs',
        'Jobs that nobody calls anymore: see `wakecall dead list TOPIC`.',
        'short',
        'sum(wakecall:jobs:max{%s, state="dead"})' % s,
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
        'How many jobs are called, and how do the calls end? Of a pull topic: see the jobs.',
        'cps',
        [['sum by (outcome) (rate(wakecall_callbacks_total{%s}[$__rate_interval]))' % s, '{{outcome}}']],
        stack=true
      ) + at(12, 4, 12, 8),
      p.lines(
        'Jobs',
        'Does a backlog grow?',
        'short',
        [['sum by (state) (wakecall:jobs:max{%s})' % s, '{{state}}']]
      ) + at(0, 12, 12, 8),
      p.lines(
        'Oldest ready job',
        'Are jobs late? A straight rise: nobody takes them.',
        's',
        [['max(wakecall:oldest_ready_seconds:max{%s})' % s, 'oldest']]
      ) + at(12, 12, 12, 8),
      p.lines(
        'Why calls fail',
        'What does the endpoint answer?',
        'cps',
        [['sum by (reason) (rate(wakecall_callbacks_total{%s, outcome=~"retry|dead|expired"}[$__rate_interval]))' % s, '{{reason}}']]
      ) + at(0, 20, 12, 8),
      p.lines(
        'Lateness and duration',
        'Are first callbacks on time, and how long do calls take? 99 of 100 are below the line.',
        's',
        [
          [p.quantile(0.99, 'wakecall_callback_' + what + '_seconds', s, '$__rate_interval'), what + ' p99']
          for what in ['lateness', 'duration']
        ]
      ) + at(0, 28, 12, 8),
      p.table(
        'Open problems',
        'What has Wakecall itself found about the topic?',
        'wakecall:problem:max{%s}' % s,
        [['severity', 'Severity'], ['kind', 'Problem']]
      ) + at(12, 20, 12, 8),
    ]
  )
