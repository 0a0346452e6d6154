// Package gateway is the role that speaks the protocols of other systems, so that their clients work unchanged. Each
// protocol is a package below this one, which knows its wire and nothing of processes; here is what they share:
// listeners that stop gracefully, waits for jobs, the search for an id, metrics, and the name of the protocol in the
// journal.
//
// A protocol's package has a constructor and a method Serve(ctx, listener) that runs Endpoint.HTTP or Endpoint.TCP; a
// line in package app's table of gateways gives it its address in the configuration.
package gateway
