// Package client is the Go client of Wakecall's HTTP API. It imports the standard library only.
//
//	c, err := client.New(client.Options{URL: "http://127.0.0.1:6789", Token: token})
//	…
//	job, err := c.Push(ctx, "order.close", client.Push{
//		ID: "order-42", Body: json.RawMessage(`{"order":42}`), Delay: client.After(30 * time.Minute),
//	})
//
// Every method takes a context and ends with it. What the server refuses comes back as an *Error, which errors.Is
// compares with ErrNotFound, ErrConflict and the like; a server that cannot be reached is ErrUnreachable.
//
// # Repeating requests
//
// A request is repeated only where that cannot do anything twice: when the connection was refused, so that nothing was
// sent, and, on an answer of 503, when carrying it out again has the same result as once (a read, a push with an id of
// the caller's own that keeps or replaces, the end of a lease). For how long is Options.RetryFor; the default is not at
// all. A push without an id is not repeated after a 503, because the job may have been stored: give jobs ids and pushes
// become safe to repeat. A repeated end of a lease may find that the first one did it: ErrConflict.
//
// A redirect is followed unless it would turn a write into a read; that is an *Error.
package client
