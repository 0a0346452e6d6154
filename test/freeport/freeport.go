// Package freeport finds TCP ports for the servers that tests start as processes of their own.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Ports are taken from below the range from which Linux picks the local ports of outgoing connections: otherwise
// some client could take the port after the test was given it and before a server listens on it.
const (
	lowestPort  = 10_000
	highestPort = 20_000 // those of buses are above
	// BusOffset is how far above its port a node of a Redis Cluster listens for the other nodes.
	BusOffset = 10_000
)

var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// TCP returns a TCP port on 127.0.0.1 on which nothing listens and which this test process was not given before. A node
// of a Redis Cluster can have it, because the port of its bus is free as well.
func TCP(t testing.TB) int {
	t.Helper()
	handedOut.Lock()
	defer handedOut.Unlock()
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if !handedOut.ports[port] && canListen(port) && canListen(port+BusOffset) {
			handedOut.ports[port] = true
			return port
		}
	}
	t.Fatal("found no free port")
	return 0
}

func canListen(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}
