// Package listen serves a listener, HTTP or plain TCP, until its process stops, and stops without failing a request
// where that is possible. It limits connections, so that half-open and idle clients cannot keep others out, and slows
// down the guessing of passwords.
//
// # Stopping
//
//	serving ──ctx done──▶ draining ──LameDuck──▶ shutting down ──requests ended or ShutdownTimeout──▶ stopped
//
// While draining, HTTP still accepts connections, and every answer has "Connection: close", so that clients close their
// kept-alive connections. Then the listener is closed. Closing a connection while a client writes its next request
// would fail that request. Connections that were accepted but have sent no request yet get five seconds. A process that
// was replaced (a successor serves the same socket) goes further: it waits up to ten seconds until each kept-alive
// connection has sent one more request.
//
// Other protocols cannot announce the end of a connection. A replaced process keeps its connections for up to ten
// seconds while the successor accepts new ones. Then it closes connections without a current request, and each of the
// others after its request has been answered.
package listen
