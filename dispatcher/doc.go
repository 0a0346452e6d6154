// Package dispatcher reserves ready jobs, calls their topics' endpoints and settles the outcomes.
//
//	source (one per shard and bucket) ── reserve ──▶ call (one goroutine per job) ── outcome ──▶ settler ── settle
//	   ▲ wake-up, freed places, poll                                                                │
//	   └────────────────────────── places are free again when settled ──────────────────────────────┘
//
// # Places
//
// A dispatcher makes Concurrency calls at once: it has so many places. A place is taken before the reserve and is
// free again when Redis has taken the outcome, so everything a dispatcher holds is bounded, also while Redis is
// away.
//
// Weights belong to priorities. A free place goes to whatever the pattern of priorities names next, and within a
// priority to the next of its topics that have ready jobs (reserve.lua; deficit round robin with equal quanta,
// Shreedhar and Varghese, SIGCOMM 1995; of many topics up to four jobs a turn, since each topic of a call costs
// Redis as much as a job). No topic is limited while its calls are answered in time. So starts are 5:3:2 however
// many topics a priority has and whatever their latency: a priority whose calls take longer holds more places, it
// is not served less often. A share that nobody needs goes to the others, and one topic alone has all places.
//
// That alone would let a few topics whose endpoints hang take every place until their TTR. Two rules prevent it:
//
//   - A call that has not ended when hangAfter is over since its reserve, or whose retry_if takes longer than
//     judgeAfter, moves aside and frees its place: it costs memory and a connection, not a core. At most asideRatio
//     calls for each place are aside, by the weights of the priorities that have any. Within its priority's share a
//     topic may have alpha times what is left (dynamic thresholds, Choudhury and Hahne, IEEE/ACM Transactions on
//     Networking 1998). While every call hangs, starts are therefore only about 5:3:2 (45:32:23 measured): what is
//     scarce then is what may be aside, whose parts are by weight at any moment, while starts are counted over time; a
//     priority at its part leaves its turn to the others instead of a place unused.
//   - When no place got free for starveFor, one spare place for each spareShare places may be used, by topics that hold
//     none. So a topic starts at once while others have just begun to hang. These starts do not count for the pattern:
//     where many calls start at once and all take equally long, the pause before they end lets spareShare add 3 % to
//     the starts of that second, which shifts no priority by 2 points.
//
// # Leases
//
// Leases of calls longer than leaseCap are extended while the call is within its TTR: when the process dies its
// jobs come back within min(TTR, leaseCap) plus queue.LeaseGrace.
//
// What a shard that does not answer leaves open is repeated until it answers, since a job that is given up counts an
// attempt when its lease expires:
//
//	a reserve   with the same token, holding no places meanwhile; jobs that then find none are released
//	a lease     that must be confirmed because the call's start window is over
//	outcomes    which keep their places
//
// A stop gives the first two a little longer and releases the jobs they return; removing a shard gives up all three.
package dispatcher
