// Package lmstfy serves the clients of lmstfy: its API and its admin API. Queue Q of namespace N in the default pool is
// the pull topic lmstfy.N.Q, in another pool P lmstfy-P.N.Q, with the names escaped by registry.EscapeName. Queues are
// made by their first job and leave nothing behind; their settings are those of the namespaces lmstfy.* and lmstfy-P.*.
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
// lmstfy's faults that no client depends on are not kept: a job is never due early, a bulk is checked as a whole before
// any of it is stored, the size leaves out what was acknowledged or expired, an expired job does not end a consume, and
// a client that goes away while it waits takes no job along.
//
// # Order
//
// Jobs of a queue are consumed in the order in which they became ready, on one shard. With several shards the jobs of a
// queue lie on all of them and each keeps the order of its own, unless the namespace has a shard that takes all of
// them.
//
// # Tokens and limits
//
// Tokens, each for one namespace of one pool, are in the registry's database. Limits count requests in windows that
// begin with the first request. Each process counts alone.
package lmstfy
