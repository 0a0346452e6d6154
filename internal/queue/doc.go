// Package queue makes several shards one queue. It answers in which shard a job is, and which one takes a new one; what
// happens to a job there is package store's. Processes, and what people and clients do, use a Queue.
//
//	queue.go             the queue
//	shards.go            the shards in use, and their order for a job: its home, then the next ones
//	push.go              a push; it waits for a shard that is being compared with the journals
//	pushbatch.go         pushes over several shards: duplicates elsewhere, the next shard when the home is down
//	recheck.go           pushes that got no reply are recorded if they were stored
//	take.go, asks.go     workers take from several buckets, of which one may hang
//	takebyid.go          a worker takes the job that it names
//	end.go               ends of leases of several shards
//	job.go, list.go, finished.go   reads
//	change.go, delete.go, dead.go, topics.go   changes; changes.go records them
//	drain.go, move.go    moves jobs out of a shard
//	health.go, workers.go, probenow.go   asks all shards
//	scripts.go           the scripts of this package, in lua/
//
// Package pull, below, lets workers wait.
//
// Invariants: a job has one home, by rendezvous hashing of its topic and id over the active shards. Where a job may
// have a copy in another shard, every change is made to both, or refused. A shard that is down holds up no job of
// another.
package queue
