package master

import (
	"net"
	"os"
	"syscall"
	"testing"
)

// scarce is a listener that first finds no descriptor free, then accepts a connection, and then is closed.
type scarce struct {
	net.Listener
	accepts int
}

func (s *scarce) Accept() (net.Conn, error) {
	s.accepts++
	switch s.accepts {
	case 1:
		return nil, os.NewSyscallError("accept4", syscall.EMFILE)
	case 2:
		conn, _ := net.Pipe()
		return conn, nil
	}
	return nil, net.ErrClosed
}

func TestTheMasterAnswersAgainAfterAShortageOfDescriptors(t *testing.T) {
	answered := 0
	acceptAll(&scarce{}, func(net.Conn) { answered++ })
	if answered != 1 {
		t.Errorf("%d connections were answered", answered)
	}
}
