package master

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

func TestThePortTakenForPortZeroIsLogged(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	free, err := openSocket(ListenSpec{Key: "server.addr", Addr: "127.0.0.1:0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer free.close()
	free.logFreePort(log, "server.addr")
	if text := out.String(); !strings.Contains(text, "server.addr") || !strings.Contains(text, free.bound.String()) ||
		strings.HasSuffix(free.bound.String(), ":0") {
		t.Errorf("%s of %s", text, free.bound)
	}
	held := sockets{"server.addr": free}
	if got := held.freePorts()["server.addr"]; got != free.bound.String() {
		t.Errorf("children learn %q, not %s", got, free.bound)
	}
	out.Reset()
	free.addr = "127.0.0.1:6789"
	if free.logFreePort(log, "server.addr"); out.Len() > 0 || len(held.freePorts()) > 0 {
		t.Errorf("a configured port: %s", &out)
	}
}

// TestUnreadAnswersTakeLittleMemory: a client that reads nothing makes the kernel hold little of its answers, also on a
// socket that systemd has opened.
func TestUnreadAnswersTakeLittleMemory(t *testing.T) {
	passed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer passed.Close()
	for name, spec := range map[string]ListenSpec{
		"opened": {Key: "server.addr", Addr: "127.0.0.1:0"},
		"passed": {Key: "server.addr", Addr: passed.Addr().String()},
	} {
		s, err := openSocket(spec, []net.Listener{passed})
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		l, err := net.FileListener(s.file)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		// The buffers of both ends; without a bound, some 4 MiB are written in a few ms.
		if n, err := conn.Write(make([]byte, 16<<20)); err == nil || n > 1<<20 {
			t.Errorf("%s: wrote %d bytes to a client that reads nothing, %v", name, n, err)
		}
	}
}
