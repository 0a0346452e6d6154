// Package lmstfy serves lmstfy's clients, through its API and its admin API. Queue Q of namespace N is the pull topic
// lmstfy.N.Q in the default pool, and lmstfy-P.N.Q in another pool P. The names are escaped by registry.EscapeName. A
// queue exists while it has jobs. The namespaces lmstfy.* and lmstfy-P.* hold the settings of the queues.
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
// Bugs of lmstfy that no client depends on are not reproduced: a job is never due early, a bulk is validated as a whole
// before any of it is stored, the size excludes acknowledged and expired jobs, an expired job does not end a consume,
// and no job is lost when a waiting client disconnects.
//
// # Order
//
// On one shard, the jobs of a queue are consumed in the order in which they became ready. With several shards, a
// queue's jobs are spread over them, and only the jobs of the same shard are in order, unless the namespace is pinned
// to one shard.
//
// # Tokens and limits
//
// Each token is for one namespace of one pool. Tokens are stored in the registry's database. Limits count requests in
// windows that begin with a first request. Each process counts separately.
package lmstfy
