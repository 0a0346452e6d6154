// Package pull gives the jobs of pull topics to workers who wait for them, in the process that the workers are
// connected to. The server and the gateways of other protocols use it; what is atomic is the queue's.
//
//	worker ── Take ──▶ Hub ── queue.Shard.Take (take.lua) ──▶ jobs, at once
//	                    │  nothing: the bucket notes the topics in awaited
//	                    └─ waits ◀── "pull" channel ── a job became ready (finish() in lua/shared/topics.lua)
//	worker ── End ───▶ Hub ── queue.End (end.lua)
//
// # Waiting
//
// A worker who waits costs Redis nothing. When a job of an awaited topic becomes ready the bucket forgets the note and
// publishes the topic's name, once. The Hub of each process that listens then lets the one take who waits
// longest. That call notes the topic again unless more is ready; then further waiters take, whose calls are gathered
// into one. So a note is missing only while somebody is on the way to take.
//
// Notes end after a minute, should their process have died. Every refreshEvery, and when a connection was lost, a Hub
// notes all its topics again in one call, which finds as well what a lost message would have told.
//
// # Workers who leave
//
// When the context of Take ends while a call is under way, the jobs that it brings are released, and their attempts
// are not counted. Request.Alive is asked just before the call. What cannot be written to a worker the caller gives
// back with the verb queue.Untake.
package pull
