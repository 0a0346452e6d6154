// Package dispatcher reserves ready jobs, calls their topics' endpoints and settles the outcomes.
//
//	source (one a shard and bucket) ── reserve ──▶ call (one goroutine a job) ── outcome ──▶ settler (one a source) ── settle
//	   ▲ wake-up, freed places, poll                                                            │
//	   └──────────────────────────────── places are free again when settled ───────────────────┘
//
// A place is taken from before the reserve until Redis has taken the outcome, so everything a dispatcher holds is bounded by its
// concurrency, also while Redis is away. Leases of calls longer than leaseCap are extended while the call is within its TTR: when
// the process dies its jobs come back within min(TTR, leaseCap) plus queue.LeaseGrace.
package dispatcher
