// Package dispatcher reserves ready jobs, calls their topics' endpoints and settles the outcomes.
//
//	source (one a shard and bucket) ── reserve ──▶ call (one goroutine a job) ── outcome ──▶ settler (one a source) ── settle
//	   ▲ wake-up, freed places, poll                                                            │
//	   └──────────────────────────────── places are free again when settled ───────────────────┘
//
// A place is taken from before the reserve until Redis has taken the outcome, so everything a dispatcher holds is bounded by its
// concurrency, also while Redis is away. Leases of calls longer than leaseCap are extended while the call is within its TTR: when
// the process dies its jobs come back within min(TTR, leaseCap) plus queue.LeaseGrace.
//
// What a shard that is away leaves open is repeated until it answers, since whatever is let go of counts an attempt when its lease ends:
//
//	a reserve   with the same token, and without holding places meanwhile; jobs that then find none are released
//	a lease     that must be confirmed because the call's start window is over
//	outcomes    which keep their places
//
// A stop gives the first two a little longer and releases what they bring; a shard that is taken out of use gives up all three.
package dispatcher
