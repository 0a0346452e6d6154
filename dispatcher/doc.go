// Package dispatcher reserves ready jobs, calls their topics' endpoints and settles the outcomes.
//
//	source (one per shard and bucket) ── reserve ──▶ call (one goroutine per job) ── outcome ──▶ settler ── settle
//	   ▲ wake-up, freed places, poll                                                                │
//	   └────────────────────────── places are free again when settled ──────────────────────────────┘
//
// # Places
//
// A dispatcher makes up to Concurrency calls at once, each in a place. A place is taken before the reserve and is free
// again when Redis has accepted the outcome, so everything a dispatcher holds is bounded, even while Redis is
// unavailable.
//
// Weights belong to priorities. A free place goes to the priority that the pattern names next, and within it to the
// next topic with ready jobs (reserve.lua; deficit round robin with equal quanta, Shreedhar and Varghese, SIGCOMM 1995;
// with many topics up to four jobs in a turn, since each topic in a call costs Redis as much as a job). No topic is
// limited while its calls are answered in time. So starts are 5:3:2 however many topics a priority has and whatever
// their latency: a priority whose calls take longer holds more places and is not served less often. A share that is not
// needed goes to the others, and a single topic gets all places.
//
// With that alone, a few topics whose endpoints hang could take every place until their TTR. Two rules prevent this:
//
//   - A call that has not ended within hangAfter of its reserve, or whose retry_if takes longer than
//     judgeAfter, moves aside and frees its place: it costs memory and a connection, not a core. At most asideRatio
//     calls for each place are aside, by the weights of the priorities that have any. Within its priority's share a
//     topic may have alpha times the unused rest (dynamic thresholds, Choudhury and Hahne, IEEE/ACM Transactions on
//     Networking 1998). While every call hangs, starts are therefore only about 5:3:2 (45:32:23 measured): the scarce
//     resource is then the calls aside, shared by weight at any moment, while starts are counted over time; a
//     priority that has used its share passes its turn to the others, so that no place stays unused.
//   - When no place has become free for starveFor, one spare place for each spareShare places may be used, by topics
//     that hold none. So a topic starts at once while others have just begun to hang. They do not count in the pattern:
//     when many calls start at once and all take equally long, the spare places in the pause before they end add 3 % to
//     the starts of that second, which shifts no priority by 2 points.
//
// # Leases
//
// Leases of calls longer than leaseCap are extended while the call is within its TTR: when the process dies, its jobs
// are ready again within min(TTR, leaseCap) plus queue.LeaseGrace.
//
// Requests that a shard does not answer are repeated until it does, since an abandoned job counts an attempt when its
// lease expires:
//
//	a reserve   with the same token, holding no places meanwhile; jobs that then find none are released
//	a lease     that must be confirmed because the call's start window has ended
//	outcomes    which keep their places
//
// On a stop the first two are repeated a little longer, and the jobs they return are released; when a shard is removed,
// all three are abandoned.
package dispatcher
