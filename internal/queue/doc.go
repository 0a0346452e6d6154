// Package queue stores Wakecall's jobs in Redis. No other package knows a key or a script, and this one knows nothing
// of callbacks, HTTP or the processes that use it.
//
// Each operation that must be atomic is a Lua script in lua/, one file for each; code that scripts share is in
// lua/shared. To follow a job, read in this order:
//
//	types.go             what a job is
//	keys.go, record.go   how Redis stores it; attempts.go its attempts; id.go the ids made here
//	push.go              a push as push.lua takes it; batches.go how requests share calls, by package batch
//	advance.go           what timers do: wake.lua gives topics with due jobs their turns, and lists what has expired
//	reserve.go           a dispatcher takes due jobs under leases
//	lease.go             a lease, and its text, which workers get
//	end.go               settle.lua ends or extends leases, of dispatchers and workers
//	take.go              workers take jobs of pull topics; takebyid.go the one job that a worker names
//	asks.go              takes from several buckets, of which one may hang
//	job.go, change.go, delete.go, list.go, dead.go   what people and clients do with jobs
//	changes.go           what journals get
//	finished.go          how a shard remembers finished jobs
//	topics.go, totals.go, notes.go, find.go, forecast.go, workers.go   settings of topics, and queries about them
//
// A Shard is one Redis deployment: shard.go, connect.go, scripts.go (the table of scripts), call.go (calls one),
// callerror.go (what an error means), reply.go, deadline.go (limits when a script may begin), wakeups.go,
// durability.go, identity.go, slotguard.go. A Queue is all shards together: queue.go and the files whose names begin
// with shards, for the order of shards for a job, pushes over several shards, moves, restores, health, and the
// comparison with the journals of hosts; pershard.go runs a function for each. via.go carries the protocol of a request
// to the journal.
//
// docs/architecture/store.md describes the keys, the invariants and the scripts, and how to find a job with redis-cli.
package queue
