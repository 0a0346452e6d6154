// Package pull gives the jobs of pull topics to waiting workers, in the process that the workers are connected to. The
// server and the gateways of other protocols use it; the queue's scripts do all atomic work.
//
//	worker ── Take ──▶ Hub ── Bucket.Take (take.lua) ──▶ jobs, at once
//	                    │  nothing: the bucket notes the topics in awaited
//	                    └─ waits ◀── "pull" channel ── a job became ready (offer in lua/shared/wait.lua)
//	worker ── End ───▶ Hub ── queue.End (settle.lua)
//
// # Waiting
//
// A waiting worker costs Redis nothing. When a job of an awaited topic becomes ready, the bucket removes the topic from
// awaited and publishes its name, once. The Hub of each listening process then lets the worker take that has waited
// longest. That call makes the topic awaited again unless more jobs are ready; then further waiters take, and their
// calls are gathered into one. So a topic with waiters is missing from awaited only while a take is on its way.
//
// Every reportEvery, a Hub reports to each bucket for which topics nobody waits any more. They leave awaited, and their
// names are published, because workers of other processes may still wait: those take again.
//
// Entries of awaited expire after a minute, in case their process has died. Every refreshEvery, and after a connection
// was lost, a Hub renews all its topics in one call, which also finds jobs whose message was lost.
//
// A worker asks the buckets one after the other, but waits only a moment for one that does not answer before it asks
// the next one as well (queue.Asks). So a shard that hangs delays no job of another. What it takes for a worker that
// has got jobs elsewhere is released.
//
// # Workers who leave
//
// When the context of Take ends while a call is under way, its jobs are released, and their attempts are not counted.
// Request.Alive is called just before the call. Jobs that cannot be written to a worker are released by the caller, see
// store.Released.
package pull
