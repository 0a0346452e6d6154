// Package dispatcher reserves ready jobs, calls their topics' endpoints and settles the outcomes.
//
//	reserver (one per shard and bucket) ── reserve ──▶ call (one goroutine per job) ── outcome ──▶ settler ── settle
//	   ▲ wake-up, poll, place that is free again ────────┘                                            │
//	   └─────────────────── nothing is reserved while the shard does not accept outcomes ─────────────┘
//
// # Places
//
// A dispatcher makes up to Concurrency calls at once, each in a place. A place is taken before the reserve, and is
// freed when the call has ended. An outcome holds no place, so a shard that is down delays no calls of other shards'
// jobs. While a shard does not accept outcomes, or as many as there are places are unsettled, nothing more is reserved
// from it, so the outcomes that wait are bounded by the places and the calls aside. A reserve that is not answered
// within the start window gives its places back: the jobs of a later answer are released.
//
// Weights belong to priorities. A free place goes to the priority that the pattern names next, and within it to the
// next topic with ready jobs (reserve.lua; deficit round robin with equal quanta, Shreedhar and Varghese, SIGCOMM 1995;
// with many topics up to four jobs in a turn, since each topic in a call costs Redis as much as a job). No topic is
// limited while its calls are answered in time. So starts are 5:3:2 however many topics a priority has and whatever
// their latency: a priority whose calls take longer holds more places, but is not served less often. An unused share
// goes to the others, and a single topic gets all places.
//
// With this alone, a few topics whose endpoints hang could take every place until their TTR. Two rules prevent this:
//
//   - A call that has not ended within hangAfter of its reserve, or whose retry_if takes longer than judgeAfter, moves
//     aside and frees its place: it costs memory and a connection, not a core. At most asideRatio calls for each place
//     are aside, by the weights of the priorities that have any. Within its priority's share a topic may have alpha
//     times the unused rest (dynamic thresholds, Choudhury and Hahne, IEEE/ACM Transactions on Networking 1998). While
//     every call hangs, starts are therefore only about 5:3:2 (45:32:23 measured): the scarce resource is then the
//     calls aside, which are shared by weight at any moment, while starts are counted over time. A priority that has
//     used its share passes its turn to the others, so that no place remains unused.
//   - When no place has become free for starveFor, one spare place for each spareShare places may be used, by topics
//     that hold none. So a topic starts at once while others have just begun to hang. Spare places do not count in the
//     pattern. When many calls start at once and all take equally long, the spare places used before they end add 3 %
//     to the starts of that second, which shifts no priority by more than 2 points.
//
// # Leases
//
// Leases last at most leaseCap and are extended while a longer call is within its TTR. So if the process dies, its jobs
// are ready again within min(TTR, leaseCap) plus queue.LeaseGrace. While a retry_if waits for its turn (package
// callback), the lease of its call is extended, also beyond the TTR.
//
// Requests that a shard does not answer are retried until it does, because an abandoned job counts an attempt when its
// lease expires:
//
//	a reserve   with the same token, holding no places meanwhile; jobs that then find none are released
//	a lease     that must be confirmed because the call's start window has ended, or the call may outlast the lease
//	outcomes    which hold no places
//
// During a stop, the first two are retried a little longer, and the jobs they return are released. When a shard is
// removed, all three are abandoned.
//
// # Reading order
//
//	dispatcher.go, reserver.go what runs; when a reserver reserves
//	reserve.go                 a reserve, and the start of its jobs' calls; startwindow.go until when these may start
//	places.go, take.go         places of calls; how many a reserve takes, and for which topics
//	workers.go, call.go        a call and its outcome; endpoint.go the topic and its endpoint
//	refuse.go, unknown.go      jobs that are not called
//	lease.go                   confirms and extends leases of calls
//	settler.go                 outcomes; report.go and metrics.go are for people
package dispatcher
