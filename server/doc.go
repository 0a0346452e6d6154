// Package server is Wakecall's HTTP API: it checks who asks and what, and hands the work to the queue and the registry.
//
// A request passes through one middleware (middleware.go: request id, metrics, panics), its route (routes.go: token,
// rights, path, query) and a handler. Handlers return errors; the only place that turns an error into an answer is fail
// in problem.go, so every refusal is RFC 9457 problem+json. Requests are decoded by decode.go, which keeps a job's body
// as the very bytes that came, and answers are made from the views in answer.go.
//
// # Stopping
//
// Package listen drains the server. Meanwhile /readyz answers 503, so that a load balancer sends nothing more.
//
// # Too many connections
//
// Package connlimit bounds connections. When all places are taken, the connections that have been without a request
// for longest give way, so half-open ones cannot keep others out.
package server
