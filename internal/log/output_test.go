package log

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/test/wait"
)

// TestAReaderThatStandsStillStopsNobody: what does not fit is dropped and counted, and one line says so when the reader
// reads again. Close does not wait for it.
func TestAReaderThatStandsStillStopsNobody(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := NewOutput(w)
	var cfg conf.Config
	log := New(&cfg, out, "server")
	const lines = 20_000
	for n := range lines {
		log.Info("line", "number", n, "text", strings.Repeat("x", 100))
	}
	out.Close()
	dropped := out.dropped
	if dropped < lines/2 {
		t.Errorf("%d lines of 3 MB were dropped", dropped)
	}
	reader := bufio.NewScanner(r)
	for n := range lines - dropped {
		if !reader.Scan() || !strings.Contains(reader.Text(), fmt.Sprintf("number=%d ", n)) {
			t.Fatalf("line %d is %q", n, reader.Text())
		}
	}
	if !reader.Scan() || !strings.Contains(reader.Text(), fmt.Sprintf("dropped: nobody read them\" process=server lines=%d", dropped)) {
		t.Errorf("the gap is reported as %q", reader.Text())
	}
	log.Info("after")
	if !reader.Scan() || !strings.Contains(reader.Text(), "after") {
		t.Errorf("the line after the gap is %q", reader.Text())
	}
	out.Close()
	wait.For(t, "everything to be written", func() bool { out.mu.Lock(); defer out.mu.Unlock(); return out.idle == nil })
	if out.dropped != dropped {
		t.Errorf("%d were dropped, want still %d", out.dropped, dropped)
	}
}
