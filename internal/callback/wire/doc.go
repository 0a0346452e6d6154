// Package wire sends one HTTP request at a time to an endpoint and receives the response.
//
// Connections belong to pools, one for each origin: scheme, host and port. Many thousand topics often have one origin;
// if topics had their own connections, nearly every call would open one. There is no limit of connections, so calls
// that hang hold up no others. A pool replaces its connections every few minutes, because the name of a busy endpoint
// may have another address by then; connections that are in use close after their calls.
//
// The calling goroutine itself writes requests without TLS of up to directLimit bytes, and reads the responses
// (direct.go), with net/http's Request.Write and ReadResponse. All others go through net/http's Transport
// (transport.go), which also speaks HTTP/2 and reads a response while it writes. The Transport passes each request and
// response between three goroutines, which costs a third of the callbacks per second. Tests compare the two byte by
// byte and response by response.
package wire
