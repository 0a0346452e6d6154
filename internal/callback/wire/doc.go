// Package wire sends one HTTP request at a time to an endpoint and receives the response.
//
// Connections belong to pools, one for each key chosen by the caller, so that unrequested data from an endpoint is
// never read as the response to a request of another pool. With many thousand topics, a pool for each topic would open
// a connection for nearly every call.
//
// The calling goroutine itself writes requests without TLS of up to directLimit bytes, and reads the responses
// (direct.go), with net/http's Request.Write and ReadResponse. All others go through net/http's Transport, which also
// speaks HTTP/2 and reads a response while it writes. The Transport passes each request and response between three
// goroutines, which costs a third of the callbacks per second. Tests compare the two byte by byte and response by
// response.
package wire
