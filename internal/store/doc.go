// Package store keeps jobs in one Redis deployment: a Shard. It answers what happens to a job there, and how a script
// is called. All jobs of a topic on a shard are in one Bucket, the unit of failure: a bucket that is down, hangs or is
// being compared holds up itself alone. What happens to a job is a method of its bucket. Package queue makes several
// shards one; packages queue, reconcile and observe bring scripts of their own, and call them by Bucket.Call as this
// package does. No other package knows a key or a script.
//
// Each operation that must be atomic is a Lua script in lua/, one file for each; code that scripts share is in
// lua/shared. To follow a job, read in this order:
//
//	types.go             what a job is
//	keys.go, record.go   how Redis stores it and its attempts; id.go the ids made here
//	push.go              pushes, as push.lua takes them; recheck.go those without a reply
//	advance.go           what timers do: wake.lua gives topics with due jobs their turns, and lists what has expired;
//	                     what a wake-up says
//	reserve.go           a dispatcher takes due jobs under leases; startwindow.go until when their calls may begin
//	lease.go, end.go     settle.lua ends or extends leases, of dispatchers and workers
//	take.go              workers take jobs of pull topics; takebyid.go the one job that a worker names
//	job.go, change.go, delete.go, list.go, dead.go   what people and clients do with jobs
//	changes.go, via.go   what journals get
//	finished.go          how a shard remembers finished jobs
//	topics.go            settings and counts of topics
//
// How a bucket is called:
//
//	shard.go, connect.go the connection; config.go its options
//	bucket.go            whether a bucket is up; runeach.go serves each in a goroutine of its own
//	scripts.go           the table of scripts, and how their texts are composed
//	call.go              the one way to call a script; callerror.go what an error means, reply.go what a reply says
//	batches.go           which requests share a call (package batch)
//	deadline.go          limits when a script may begin
//	durability.go        waits for a replica
//	identity.go          whether the data is the shard's
//	await.go, early.go   what happens while it is being compared
//	wakeups.go           listens for messages of other processes; health.go what people see of a shard
//
// Invariants: a script changes all of a job or nothing. A lease is ended by its token, once. A change has a revision,
// higher than all before it in its bucket.
//
// docs/architecture/store.md describes the keys, the invariants and the scripts, and how to find a job with redis-cli.
package store
