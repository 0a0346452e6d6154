// Package server is Wakecall's HTTP API. It authenticates and validates requests and passes them to the queue and the
// registry.
//
// A request passes through one middleware (middleware.go: request id, metrics, panics), its route (call.go: token,
// rights, path, query; routes.go lists all routes) and a handler. Handlers return errors. Only fail in problem.go turns
// an error into an answer, so every refusal is RFC 9457 problem+json.
//
// Requests are structs. request.go decodes them, and keeps a job's body byte for byte; malformed.go explains why one
// cannot be decoded. times.go and values.go have the types of fields. Answers are views: jobview.go has that of a job,
// wholejob.go that of a job with its body and history.
//
// # Stopping
//
// Package listen drains the server. Meanwhile /readyz answers 503, so that load balancers send no more requests.
//
// # Too many connections
//
// Package listen limits connections. At the limit it closes those that have been idle longest, so half-open ones cannot
// keep others out.
package server
