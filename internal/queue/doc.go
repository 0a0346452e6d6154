// Package queue stores Wakecall's jobs in Redis. No other package knows a key or a script, and this one knows nothing
// of callbacks, HTTP or the processes that use it.
//
// Each operation that must be atomic is a Lua script in lua/, one file for each; code that scripts share is in
// lua/shared. To follow a job, read in this order:
//
//	types.go             what a job is
//	keys.go, record.go   how Redis stores it; attempts.go its attempts
//	push.go              a push as push.lua takes it; batcher.go hands pushes to gather.go, which batches calls
//	advance.go           what timers do: make due jobs ready, end expired leases
//	reserve.go           a dispatcher takes ready jobs under leases
//	settle.go            a dispatcher ends the leases
//	take.go, lease.go, end.go   the same for workers of pull topics; gather.go gathers their calls, takebyid.go takes
//	                     the one job that a worker names
//	job.go, change.go, delete.go, list.go, dead.go   what people and clients do with jobs
//	finished.go          how a shard remembers finished jobs
//	topics.go, totals.go, notes.go, find.go, forecast.go   queries about topics
//
// A Shard is one Redis deployment: shard.go, connect.go, script.go (calls scripts), deadline.go (limits when a script
// may begin), wakeups.go, durability.go, identity.go, slotguard.go. A Queue is all shards together: queue.go and the
// files whose names begin with shards, for the order of shards for a job, pushes over several shards, moves, restores,
// health, and the comparison with the journals of hosts; pershard.go runs a function for each. doubt.go removes copies
// that pushes may have left in a shard that did not answer.
package queue
