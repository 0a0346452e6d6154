package callback

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAShortageOfThisHostIsNotTheEndpointsFailure: without a descriptor neither a name can be resolved nor an address
// dialled. An endpoint that refuses the connection is another matter.
func TestAShortageOfThisHostIsNotTheEndpointsFailure(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		err := &net.OpError{Op: "dial", Net: "udp", Err: os.NewSyscallError("socket", errno)}
		resolver := &net.Resolver{
			PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, err },
		}
		resolving := caller(t, Options{Resolver: resolver}).Do(t.Context(), endpoint(t, EndpointSpec{
			URL: "http://endpoint.invalid/",
		}), job())
		dialling := Outcome{StartedAt: time.Now()}
		dialling.fail(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", errno)}, time.Second)
		for _, o := range []Outcome{resolving, dialling} {
			if o.Class != Short || o.Reason != "shortage" || o.EndpointDown || !strings.Contains(o.Err, errno.Error()) {
				t.Errorf("%s: %+v", errno, o)
			}
		}
	}
	var refused Outcome
	refused.fail(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		time.Second)
	if refused.Class != Failure || !refused.EndpointDown {
		t.Errorf("refused: %+v", refused)
	}
}
