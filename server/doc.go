// Package server is Wakecall's HTTP API. It authenticates and validates requests and passes them to the queue and the
// registry.
//
// A request passes through one middleware (middleware.go: request id, metrics, panics), its route (routes.go: token,
// rights, path, query) and a handler. Handlers return errors. Only fail in problem.go turns an error into an answer, so
// every refusal is RFC 9457 problem+json. Requests are structs; request.go has the types of their fields, and keeps a
// job's body byte for byte. Answers are the views in answer.go.
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
