// Package listen serves a listener until its process stops, HTTP or plain TCP, with bounded connections (package
// connlimit), and stops without failing a request where that is possible.
//
// # Stopping
//
//	serving ──ctx done──▶ draining ──LameDuck──▶ shutting down ──requests ended or ShutdownTimeout──▶ stopped
//
// While draining, HTTP still accepts and every answer carries "Connection: close", so clients with kept connections
// move on by themselves. Only then is the listener closed: a connection that is closed while a client writes its next
// request on it would be a failed request. Those that were accepted but have not asked yet are waited for, five seconds
// at most. A process that was replaced (a successor serves the same socket) goes further: it waits up to ten seconds
// until each kept connection has brought one more request.
//
// Other protocols cannot announce the end of a connection. A replaced process keeps its connections for up to ten
// seconds while the successor accepts the new ones; then those without a request under way are closed, and each of the
// others when its request has been answered.
package listen
