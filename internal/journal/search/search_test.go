package search

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// host is a host with a journal and a server.
func host(t *testing.T, name string, key seal.Key, requests []journal.RequestLine, attempts ...journal.AttemptLine) (
	*Searcher, Peer,
) {
	t.Helper()
	dir := t.TempDir()
	j, err := journal.Open(journal.Options{Dir: dir, Keep: time.Hour, Process: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	if err := j.Requests(requests); err != nil {
		t.Fatal(err)
	}
	if err := j.Attempts(attempts); err != nil {
		t.Fatal(err)
	}
	s := &Searcher{Dir: dir, Host: name, Key: key, Web: NewWeb(), Peers: func(context.Context) []Peer { return nil }}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ByHost(r) || !s.Signed(r, time.Now()) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if err := s.Serve(r.Context(), r, w, func() { _ = http.NewResponseController(w).Flush() }); err != nil {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	t.Cleanup(srv.Close)
	return s, Peer{name, []netip.AddrPort{netip.MustParseAddrPort(srv.Listener.Addr().String())}}
}

// TestSearchOfAllHosts merges what the journals of several hosts know, and names the hosts that it could not ask.
func TestSearchOfAllHosts(t *testing.T) {
	key := seal.Key(strings.Repeat("k", seal.KeySize))
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
	push := journal.RequestLine{
		TS: at, Op: journal.OpPush, Topic: "shop", ID: "order-42", CreatedAt: at, Body: []byte("{}"),
	}
	again := push
	again.TS, again.CreatedAt = at.Add(30*time.Minute), at.Add(30*time.Minute)
	similar := journal.RequestLine{Op: journal.OpPush, Topic: "shop", ID: "order-421"}
	s, _ := host(t, "one", key, []journal.RequestLine{push, again, similar})
	deletion := journal.RequestLine{TS: at.Add(40 * time.Minute), Op: journal.OpDelete, Topic: "shop", ID: "order-42",
		CreatedAt: again.CreatedAt, By: "user/ops"}
	_, two := host(t, "two", key, []journal.RequestLine{deletion},
		journal.AttemptLine{TS: at.Add(time.Minute), Topic: "shop", ID: "order-42", CreatedAt: at, N: 1, Status: 200,
			Outcome: journal.Done})
	_, other := host(t, "other key", seal.Key(strings.Repeat("o", seal.KeySize)), nil)
	_, wrong := host(t, "renamed", key, nil)
	wrong.Name = "wrong"
	down := Peer{"down", []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}}
	two.Addrs = append(down.Addrs, append(wrong.Addrs, two.Addrs...)...) // addresses of other networks come first
	s.Peers = func(context.Context) []Peer { return []Peer{two, other, wrong, down, {Name: "mute"}} }

	r := s.All(t.Context(), Query{ID: "order-42"}, func(Report) {})
	var missed []string
	for _, h := range r.Hosts {
		if !h.Done {
			t.Errorf("%s is not done", h.Name)
		}
		if h.Error != "" {
			missed = append(missed, h.Name)
		}
	}
	if got := fmt.Sprint(missed); got != "[other key wrong down mute]" || !r.Done {
		t.Errorf("could not ask %s: %+v", got, r.Hosts)
	}
	if len(r.Jobs) != 2 || r.Jobs[0].Ended != "delete" || r.Jobs[1].Ended != "done" {
		t.Fatalf("found %+v", r.Jobs)
	}
	if e := r.Jobs[0].Events; len(e) != 2 || e[1].By != "user/ops" || e[1].Host != "two" || e[0].Host != "one" {
		t.Errorf("the second job: %+v", e)
	}
	if e := r.Jobs[1].Events; len(e) != 2 || string(e[0].Body) != "{}" || e[1].Status != 200 {
		t.Errorf("the first job: %+v", e)
	}
	if r := s.All(t.Context(), Query{ID: "order-42", Topic: "other"}, func(Report) {}); len(r.Jobs) != 0 {
		t.Errorf("of another topic: %+v", r.Jobs)
	}
	s.Key = nil
	r = s.All(t.Context(), Query{ID: "order-42"}, func(Report) {})
	if !strings.Contains(r.Hosts[1].Error, "seal_key") {
		t.Errorf("without a key: %+v", r.Hosts)
	}
}

// TestSearchFindsWhoCancelledAGroup, in the journal of another host, although the line names no job.
func TestSearchFindsWhoCancelledAGroup(t *testing.T) {
	key := seal.Key(strings.Repeat("k", seal.KeySize))
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
	push := func(topic string, after time.Duration) journal.RequestLine {
		return journal.RequestLine{
			TS: at.Add(after), Op: journal.OpPush, Topic: topic, ID: "x", CreatedAt: at.Add(after), Group: "order 42",
		}
	}
	cancel := journal.RequestLine{
		TS: at.Add(time.Minute), Op: journal.OpCancel, Group: "order 42", Topics: "shop mail.*", Revision: 7, By: "user/ops",
	}
	other := cancel
	other.Group = "order 421"
	s, _ := host(t, "one", key, []journal.RequestLine{
		push("shop", 0), push("bank", 0), push("mail.new", 0), push("mail.new", 2*time.Minute), push("mail.old", 0),
	}, journal.AttemptLine{
		TS: at.Add(time.Second), Topic: "mail.old", ID: "x", CreatedAt: at, N: 1, Status: 200, Outcome: journal.Done,
	})
	_, two := host(t, "two", key, []journal.RequestLine{other, cancel})
	s.Peers = func(context.Context) []Peer { return []Peer{two} }

	got := map[string]string{}
	r := s.All(t.Context(), Query{ID: "x"}, func(Report) {})
	for _, j := range r.Jobs {
		last := j.Events[len(j.Events)-1]
		got[fmt.Sprint(j.Topic, " ", j.CreatedAt.Sub(at))] = fmt.Sprint(j.Ended, " ", last.By, " ", last.Topics)
	}
	for job, want := range map[string]string{
		"shop 0s": "cancel user/ops ", "mail.new 0s": "cancel user/ops ", "mail.old 0s": "done  ", "bank 0s": "  ",
		"mail.new 2m0s": "  ", // pushed afterwards
	} {
		if got[job] != want {
			t.Errorf("%s: %q, want %q", job, got[job], want)
		}
	}
	if len(r.Hosts) != 2 || !r.Done {
		t.Errorf("%+v", r)
	}
}

// TestSignatureOfAHost is for one query, and for minutes.
func TestSignatureOfAHost(t *testing.T) {
	s := &Searcher{Key: seal.Key(strings.Repeat("k", seal.KeySize))}
	now := time.Unix(1_800_000_000, 0)
	signed := func(query string, now time.Time) bool {
		r := httptest.NewRequest(http.MethodGet, Path+"?"+query, nil)
		r.Header.Set("Authorization", scheme+"1800000000."+s.signature("1800000000", "id=1&self=a"))
		return s.Signed(r, now)
	}
	if !signed("id=1&self=a", now) || !signed("id=1&self=a", now.Add(-time.Minute)) {
		t.Error("a right signature is refused")
	}
	if signed("id=2&self=a", now) || signed("id=1&self=a", now.Add(time.Hour)) {
		t.Error("a signature of another query, or an old one, is accepted")
	}
	if s.Key = nil; signed("id=1&self=a", now) {
		t.Error("without a key, a signature is accepted")
	}
}
