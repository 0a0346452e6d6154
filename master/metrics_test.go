package master

import (
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// TestHalfOpenScrapersAreBounded: connections to metrics.addr that send nothing use few of the master's descriptors, and
// keep no scrape out.
func TestHalfOpenScrapersAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	m := &Master{options: Options{MetricsAddr: addr}}
	before := descriptors(t)
	srv, err := m.serveMetrics()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close() }()
	const tried = 2000
	for range tried {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	if have := descriptors(t) - before - tried; have > maxScrapers+10 {
		t.Errorf("%d half-open connections hold %d descriptors", tried, have)
	}
	res, err := (&http.Client{Timeout: 30 * time.Second}).Get("http://" + addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
