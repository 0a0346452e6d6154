// Package gateway is the role that speaks the protocols of other systems, so that their clients work unchanged. Each
// protocol has a package below this one, which knows its wire format and nothing about processes. This package contains
// what they share: listeners that stop gracefully, waits for jobs, the search for an id, metrics, and the protocol's
// name for the journal.
//
// The package of a protocol has a constructor and a method Serve(ctx, listener) that calls Endpoint.HTTP or
// Endpoint.TCP. One line in package app's table of gateways sets its configuration key.
package gateway
