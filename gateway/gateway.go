package gateway

import "net"

// Listener is a protocol with the socket that it serves.
type Listener struct {
	*Endpoint
	net.Listener
	Key     string // configuration key of its address
	Prepare Prepare
}

// Connections returns the number of open connections of all listeners of the protocol.
func (e *Endpoint) Connections() int64 { return e.conns.Load() }

// Connections returns the number of open connections of each protocol, which `wakecall ps` and the admin show.
func Connections(listeners []Listener) map[string]int64 {
	conns := map[string]int64{}
	for _, l := range listeners {
		conns[l.Name] = l.Connections()
	}
	return conns
}
