// Package server is Wakecall's HTTP API: it checks who asks and what, and hands the work to the queue and the registry.
//
// A request passes through one middleware (middleware.go: request id, metrics, panics), its route (routes.go: token,
// rights, path, query) and a handler. Handlers return errors; the only place that turns an error into an answer is fail
// in problem.go, so every refusal is RFC 9457 problem+json. Requests are decoded by decode.go, which keeps a job's body
// as the very bytes that came, and answers are made from the views in answer.go.
//
// # Stopping
//
//	serving ──ctx done──▶ draining ──LameDuck──▶ shutting down ──requests ended or ShutdownTimeout──▶ stopped
//
// While draining the server still accepts, /readyz answers 503 and every answer carries "Connection: close", so clients
// with kept connections move on by themselves. Only then is the listener closed: a connection that is closed while a
// client writes its next request on it would be a failed request. Those that were accepted but have not asked yet are
// waited for, five seconds at most. A server that was replaced (a successor serves the same socket) goes further: it waits
// up to ten seconds until each kept connection has brought one more request.
//
// # Too many connections
//
// Package connlimit bounds connections. When all places are taken, the connections that have been without a request
// for longest give way, so half-open ones cannot keep others out.
package server
