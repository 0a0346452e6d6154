// Package lmstfy serves the clients of lmstfy: its API and its admin API. Queue Q of namespace N in the default pool is
// the pull topic lmstfy.N.Q, in another pool P lmstfy-P.N.Q, with the names escaped by registry.EscapeName. Queues are
// created by their first job and vanish after their last; the namespaces lmstfy.* and lmstfy-P.* have their settings.
//
//	lmstfy          Wakecall
//	publish         a push with an id that is made here
//	consume         a take, in the order in which the queues are named
//	ack             the end of the job in any state
//	ttl             the job expires; it is dropped without a trace, but never once it is dead
//	tries           max_attempts; a lease that ends counts
//	dead letter     the dead jobs, the oldest first
//	pool            a prefix of topics; all pools share the shards
//
// Faults of lmstfy that no client depends on are not reproduced: a job is never due early, a bulk is validated as a
// whole before any of it is stored, the size excludes acknowledged and expired jobs, an expired job does not end a
// consume, and a client that disconnects while it waits takes no job with it.
//
// # Order
//
// On one shard, jobs of a queue are consumed in the order in which they became ready. With several shards, the jobs of
// a queue are spread over them, and each shard keeps its own order, unless the namespace is pinned to one shard.
//
// # Tokens and limits
//
// Tokens, each for one namespace of one pool, are stored in the registry's database. Limits count requests in windows
// that begin with the first request. Each process counts separately.
package lmstfy
