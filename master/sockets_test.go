package master

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
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
	out.Reset()
	free.addr = "127.0.0.1:6789"
	if free.logFreePort(log, "server.addr"); out.Len() > 0 {
		t.Errorf("a configured port: %s", &out)
	}
}
