// What an installation may have to change. Import mixin.libsonnet and add `{ _config+:: { … } }`.
{
  _config+:: {
    // Labels that tell one installation from another. All hosts of an installation share them.
    installation: 'job',
    // The targets of Wakecall in Prometheus.
    targets: 'job=~".*wakecall.*"',

    // Objective: this share of jobs gets its first callback within this time of its due time. The time must be a
    // classic bucket of wakecall_callback_lateness_seconds: 0.004, 0.016, 0.064, 0.256, 1.024, 4.096 or 16.384.
    objective: 0.999,
    within: '4.096',

    // Limits.
    memoryShare: 0.9,
    deadJobs: 10,

    runbooks: 'https://github.com/wakecall/wakecall/blob/main/docs/operations/runbooks.md#',
  },
}
