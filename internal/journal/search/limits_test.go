package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

var hostKey = seal.Key(strings.Repeat("k", seal.KeySize))

// TestSearchCountsAfterRights: events of topics that a search does not select, and lines that clear topics, leave it no
// fewer events, on this host and on others.
func TestSearchCountsAfterRights(t *testing.T) {
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
	line := func(op journal.Op, topic, id string) journal.RequestLine {
		return journal.RequestLine{TS: at, Op: op, Topic: topic, ID: id, CreatedAt: at}
	}
	var lines []journal.RequestLine
	for i := range maxEvents + 100 {
		topic := fmt.Sprint("bank.t", i)
		lines = append(lines, line(journal.OpPush, topic, "42"), line(journal.OpClear, topic, ""))
	}
	lines = append(lines, line(journal.OpPush, "shop.orders", "42"))
	s, _ := host(t, "one", hostKey, lines)
	_, two := host(t, "two", hostKey, lines)
	s.Peers = func(context.Context) []Peer { return []Peer{two} }
	within := Query{ID: "42", Within: []string{"shop.*"}}
	r := s.All(t.Context(), within, func(Report) {})
	if len(r.Jobs) != 1 || len(r.Jobs[0].Events) != 2 || r.Jobs[0].Topic != "shop.orders" || r.Cut {
		t.Errorf("found %d jobs: %+v; hosts %+v", len(r.Jobs), r.Jobs[:min(1, len(r.Jobs))], r.Hosts)
	}
	for i := range lines[:2*(maxEvents+100)] {
		lines[i] = line(journal.OpClear, lines[i].Topic, "")
	}
	all, _ := host(t, "three", hostKey, lines)
	if r := all.All(t.Context(), Query{ID: "42"}, func(Report) {}); len(r.Jobs) != 1 {
		t.Errorf("among cleared topics, found %d jobs", len(r.Jobs))
	}
}

// TestAnswersOfHostsAreSignedAndBounded: what was not signed with the key for this request is no event, and a host that
// answers without end is not read to its end.
func TestAnswersOfHostsAreSignedAndBounded(t *testing.T) {
	event := func(what string) []byte { return fmt.Appendf(nil, `{"event":{"what":%q,"topic":"t","id":"42"}}`, what) }
	for _, c := range []struct {
		name, reason string
		events       int // that are found
		answer       func(w http.ResponseWriter, sign func([]byte) string)
	}{
		{"another key", "not signed", 0, func(w http.ResponseWriter, _ func([]byte) string) {
			other := &Searcher{Key: seal.Key(strings.Repeat("o", seal.KeySize))}
			fmt.Fprintf(w, "%s %s\n", signed(other.mac("answer\n"), event("delete")), event("delete"))
		}},
		{"no signature", "not signed", 0, func(w http.ResponseWriter, _ func([]byte) string) {
			fmt.Fprintf(w, "%s\n", event("delete"))
		}},
		{"a line is left out", "not signed", 0, func(w http.ResponseWriter, sign func([]byte) string) {
			sign(event("push"))
			fmt.Fprintf(w, "%s %s\n", sign(event("delete")), event("delete"))
		}},
		{"too many events", "too many", 2 * maxEvents, func(w http.ResponseWriter, sign func([]byte) string) {
			for range 2*maxEvents + 1 {
				fmt.Fprintf(w, "%s %s\n", sign(event("push")), event("push"))
			}
		}},
		{"an endless line", "too long", 0, func(w http.ResponseWriter, _ func([]byte) string) {
			for {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
					return
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := host(t, "one", hostKey, nil)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mac := s.mac("answer\n" + r.Header.Get("Authorization"))
				c.answer(w, func(line []byte) string { return signed(mac, line) })
			}))
			defer srv.Close()
			at := []netip.AddrPort{netip.MustParseAddrPort(srv.Listener.Addr().String())}
			s.Peers = func(context.Context) []Peer { return []Peer{{"two", at}} }
			r := s.All(t.Context(), Query{ID: "42"}, func(Report) {})
			events := 0
			for _, j := range r.Jobs {
				events += len(j.Events)
			}
			if events != c.events || !strings.Contains(r.Hosts[1].Error, c.reason) {
				t.Errorf("%d events, and the error %q", events, r.Hosts[1].Error)
			}
		})
	}
}

// TestSearchesOfAHostTakeTurns, also those of other processes, and only so many wait.
func TestSearchesOfAHostTakeTurns(t *testing.T) {
	s, _ := host(t, "one", hostKey, []journal.RequestLine{{TS: time.Now(), Op: journal.OpPush, Topic: "t", ID: "42"}})
	other, err := os.Create(filepath.Join(s.Dir, ".search.lock"))
	if err == nil {
		err = disk.Flock(other, syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	self := func(ctx context.Context, waits func()) error {
		return s.own(ctx, Query{ID: "42"}, func(l line) {
			if waits(); l.Event != nil {
				found++
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := 0
	err = self(ctx, func() {
		if waited++; waited == 3 {
			cancel()
		}
	})
	if err == nil || found > 0 {
		t.Errorf("while another search is under way: %v, found %d", err, found)
	}
	other.Close()
	if err := self(t.Context(), func() {}); err != nil || found != 1 {
		t.Errorf("then: %v, found %d", err, found)
	}
	s.waiting.Store(maxWaiting)
	if err := self(t.Context(), func() {}); !errors.Is(err, ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
}
