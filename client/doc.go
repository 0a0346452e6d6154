// Package client is the Go client of Wakecall's HTTP API. It imports the standard library only.
//
//	c, err := client.New(client.Options{URL: "http://127.0.0.1:6789", Token: token})
//	…
//	job, err := c.Push(ctx, "order.close", client.Push{
//		ID: "order-42", Body: json.RawMessage(`{"order":42}`), Delay: client.After(30 * time.Minute),
//	})
//
// A unit test replaces the client, as a Pusher, by the Fake of the package wakecalltest.
//
// Every method returns when its context ends. A refusal by the server is an *Error, which errors.Is compares with
// ErrNotFound, ErrConflict and the like. ErrUnreachable means that the server cannot be reached.
//
// # Repeating requests
//
// A request is repeated only if that is safe: when the connection was refused, so no request was sent, and, after a
// 503 or a lost connection, when the request is idempotent (a read, a push that keeps or replaces, the end of a lease,
// the cancellation of a group, a change of a schedule). Options.RetryFor limits for how long; by default requests are
// not repeated. A push without an id gets one from the client, so a repeated push is never a second job. To push it
// again yourself after an error, set the id. When the end of a lease is repeated, it may return ErrConflict because the
// first request ended the lease.
//
// A redirect is followed unless it would turn a write into a read; then the method returns an *Error.
package client
