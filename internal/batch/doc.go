// Package batch lets the requests of many goroutines share calls: pushes, takes, endings and the outcomes of callbacks
// are far cheaper for Redis together than one by one. It knows nothing of jobs or Redis.
//
//	request.go   a request, which waits for its answer; List, the call for requests that are lists
//	batch.go     a Batcher queues requests and makes the calls
//
// While no call is under way, a request is sent at once; otherwise requests wait and go together in the next call. So
// nothing is delayed for the sake of a batch, and batches grow with the load.
//
// # Invariants
//
//   - Every request is answered or refused, also one that comes after its owner was closed.
//   - At most Options.Calls calls are under way. Each has a slot, a number that no other call has meanwhile.
//   - Requests of a queue are sent in the order in which they were added.
//   - Parts of large requests wait in a queue of their own. While none of the calls under way is one of the other
//     requests, the next call is theirs, so a single push never waits behind thousands.
package batch
