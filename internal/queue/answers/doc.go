// Package answers lets pushes wait for the ends of their jobs, in the server that their clients are connected to.
//
//	push ── Enter, then Queue.Push with Awaited ──▶ a job with the pair await
//	          │
//	          └─ waits ◀── "ended" channel ── a script ended or removed such a job (tell in lua/shared/remove.lua)
//	                └── Queue.Find ──▶ its state and result, which stay for two minutes
//
// A wait costs Redis next to nothing: a server has one subscription for each bucket, from its first wait on. Messages
// only say which jobs to read, so none must arrive: each job is read once after its push, all are read after each connect
// and when a comparison with the journals ends, and every pollEvery. A job that no shard has, while all of them answer,
// was deleted; one that was created later replaced it.
//
// A wait ends with its client's request. The job goes on, and a push of the same id waits for it again: so a client
// loses nothing when the server that holds its wait is killed.
package answers
