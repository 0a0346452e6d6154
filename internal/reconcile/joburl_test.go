package reconcile

import (
	"log/slog"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

const ownURL = "https://a.shop.example/hooks/1?a=b&ttr=5"

// TestRecoveryOfAJobsURL: as it was after the last change.
func TestRecoveryOfAJobsURL(t *testing.T) {
	h, in, client := oneHost(t)
	attendAll(t, in)
	ready(t, h)
	none, url := "", ownURL
	for id, change := range map[string]*store.Change{"kept": nil, "set": {URL: &url}, "cleared": {URL: &none}} {
		p := store.Push{Topic: "t", ID: id, Priority: store.Normal, Delay: time.Hour}
		if id != "set" {
			p.URL = ownURL
		}
		if err := h.queue.Push(t.Context(), p).Err; err != nil {
			t.Fatal(err)
		}
		if change != nil {
			if err := h.change(t.Context(), "t", id, *change); err != nil {
				t.Fatal(err)
			}
		}
	}
	client.FlushAll(t.Context())
	attendAll(t, in)
	ready(t, h)
	for id, want := range map[string]string{"kept": ownURL, "set": ownURL, "cleared": ""} {
		wantJob(t, h.queue, id, store.Delayed, func(j *store.Job) bool { return j.URL == want })
	}
}

// TestASpooledPushKeepsItsURL until a shard has it.
func TestASpooledPushKeepsItsURL(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	list, err := NewSpool(h.dir, h.journal).Keep([]store.Push{
		{Topic: "t", ID: "1", URL: ownURL, Delay: time.Hour, Priority: store.Normal},
	})
	if err != nil || list[0].URL != ownURL {
		t.Fatal(list, err)
	}
	if _, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), h.dir, false); err != nil {
		t.Fatal(err)
	}
	wantJob(t, h.queue, "1", store.Delayed, func(j *store.Job) bool { return j.URL == ownURL })
}
