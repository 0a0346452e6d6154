package recovery

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/queue"
)

// awayWorld is a shard that lost everything while the second host was away.
func awayWorld(t *testing.T, before func(a, b *host)) (a, b *host, inA, inB *attendant, client *redis.Client) {
	t.Helper()
	url, client := startRedis(t)
	a, b, inA, inB = twoHosts(t, url)
	before(a, b)
	client.FlushAll(t.Context())
	inA.opts.Patience = time.Millisecond
	attendAll(t, inA)
	ready(t, a)
	return a, b, inA, inB, client
}

func isAbsent(err error) bool {
	var un *queue.UnavailableError
	return errors.As(err, &un) && un.Reason == "absent"
}

// TestRecoveryKnowsWhatItCannotKnow: while a host is away, an id that is not there may be in its journal.
func TestRecoveryKnowsWhatItCannotKnow(t *testing.T) {
	a, b, _, inB, _ := awayWorld(t, func(a, b *host) {
		b.push(t, "of b", `"old"`, time.Hour)
		a.push(t, "of a", `"a"`, time.Hour)
	})
	ctx := t.Context()
	if _, err := a.queue.Get(ctx, "t", "of a"); err != nil {
		t.Errorf("of a: %v", err)
	}
	_, err := a.queue.Get(ctx, "t", "of b")
	errs := map[string]error{"get": err, "delete": a.queue.Delete(ctx, "t", "of b")}
	errs["change"] = a.change(ctx, "t", "of b", queue.Change{})
	_, errs["run"] = a.queue.RunNow(ctx, "t", "of b")
	errs["push"] = a.queue.Push(ctx, queue.Push{Topic: "t", ID: "of b", Body: []byte(`"new"`)}).Err
	errs["push refused if there"] = a.queue.Push(ctx,
		queue.Push{Topic: "t", ID: "of b", Body: []byte(`"new"`), OnDuplicate: queue.Refuse}).Err
	for what, err := range errs {
		if !isAbsent(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if r := a.queue.Push(ctx, queue.Push{Topic: "t", ID: "of a", Body: []byte(`"new"`)}); r.Err != nil || !r.Duplicate {
		t.Errorf("push of a known id: %+v", r)
	}
	if r := a.queue.Push(ctx, queue.Push{Topic: "t", ID: queue.NewID(), Fresh: true}); r.Err != nil {
		t.Errorf("push without an id: %v", r.Err)
	}
	attendAll(t, inB)
	ready(t, a, b)
	if j, err := a.queue.Get(ctx, "t", "of b"); err != nil || string(j.Body) != `"old"` {
		t.Errorf("of b, when it is back: %+v, %v", j, err)
	}
	if _, err := a.queue.Get(ctx, "t", "unknown"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("unknown, when all are back: %v", err)
	}
}

// TestRecoveryByAHostThatIsBackOverridesNothing: what was accepted while it was away is newer than all that it knows.
func TestRecoveryByAHostThatIsBackOverridesNothing(t *testing.T) {
	a, b, _, inB, _ := awayWorld(t, func(a, b *host) {
		for _, id := range []string{"replaced", "called", "deleted", "cleared", "changed"} {
			a.push(t, id, `"a"`, time.Hour)
			body := []byte(`"b"`)
			if err := b.change(t.Context(), "t", id, queue.Change{Body: &body}); err != nil {
				t.Fatal(err)
			}
		}
		b.push(t, "of b", `"b"`, time.Hour)
		r := b.queue.Push(t.Context(), queue.Push{Topic: "cleared", ID: "1", Body: []byte("1"), Delay: time.Hour})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	})
	ctx := t.Context()
	replace := func(id string) {
		t.Helper()
		p := queue.Push{Topic: "t", ID: id, Body: []byte(`"new"`), OnDuplicate: queue.Replace}
		if r := a.queue.Push(ctx, p); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	replace("of b")
	replace("called")
	for range 2 {
		if _, id, err := a.work(ctx, queue.NewID(), queue.Done); err != nil || id == "" {
			t.Fatalf("worked on %q, %v", id, err)
		}
	}
	if err := a.queue.Delete(ctx, "t", "deleted"); err != nil {
		t.Fatal(err)
	}
	replace("replaced")
	if _, err := a.queue.DropTopic(ctx, "cleared"); err != nil {
		t.Fatal(err)
	}
	attendAll(t, inB)
	ready(t, a, b)
	for _, id := range []string{"of b", "called", "deleted"} {
		if j, err := a.queue.Get(ctx, "t", id); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("%s: %+v, %v", id, j, err)
		}
	}
	if j, err := a.queue.Get(ctx, "cleared", "1"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("of the cleared topic: %+v, %v", j, err)
	}
	for id, want := range map[string]string{"replaced": `"new"`, "changed": `"b"`} {
		if j, err := a.queue.Get(ctx, "t", id); err != nil || string(j.Body) != want {
			t.Errorf("%s: %+v, %v", id, j, err)
		}
	}
}
