// Package queue keeps Wakecall's jobs in Redis. It is the only package that knows a key or a script, and it knows
// nothing of callbacks, of HTTP, or of the processes that use it.
//
// Everything that must be atomic is a Lua script in lua/, one file a script; what several scripts need is in
// lua/shared. To follow a job, read in this order:
//
//	types.go             what a job is
//	keys.go, record.go   how Redis stores it; placed.go what earlier versions stored, attempts.go its attempts
//	push.go              a push as push.lua takes it; batcher.go hands pushes to gather.go, which shares calls
//	advance.go           what timers do: due jobs become ready, expired leases end
//	reserve.go           a dispatcher takes ready jobs under leases
//	settle.go            and ends the leases
//	take.go, lease.go, end.go   the same for workers of pull topics; gather.go gathers their calls, takebyid.go takes
//	                     the one job that a worker names
//	job.go, change.go, delete.go, list.go, dead.go   what people and clients do with jobs
//	finished.go          how finished jobs are remembered
//	topics.go, totals.go, notes.go, find.go, forecast.go   what is asked about topics
//
// One deployment is a Shard: shard.go, connect.go, script.go (how a script is called), deadline.go (and by when at the
// latest it begins), wakeups.go, durability.go, identity.go, slotguard.go. A Queue is all shards together: queue.go and
// the files whose names begin with shards: their order for a job, pushes over several of them, moves, restores, health,
// and the comparison with the journals of hosts. doubt.go removes what a push left at a shard that did not answer.
package queue
