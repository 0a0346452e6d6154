package checker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestARedisThatIsKilledAndRestarted(t *testing.T) {
	r := redistest.Start(t, redistest.Options{Quick: true, Args: []string{"--maxmemory", "100mb"}})
	q := queue.Open(store.Options{Timeout: wait.Limit})
	t.Cleanup(func() { _ = q.Close() })
	shards := []store.ShardConfig{{Name: "a", URL: r.URL(), State: "active"}}
	if err := q.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the shard", func() bool { return queuetest.Adopt(t.Context(), q.Shards.All()[0]) == nil })
	begun := make(chan Finding, 10)
	ended := make(chan Finding, 10)
	c := New(Options{
		Shards: func() []Shard { return []Shard{q.Shards.All()[0]} },
		Every:  200 * time.Millisecond, // also the limit of a check
		Notify: func(f Finding) {
			if f.Ended.IsZero() {
				begun <- f
			} else {
				ended <- f
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	wait.For(t, "the shard to be seen", func() bool { return len(c.Views()) > 0 && c.Views()[0].Health.Up })
	if h := c.Views()[0].Health; h.MaxMemory != 100<<20 || h.Memory == 0 {
		t.Errorf("memory %d of %d", h.Memory, h.MaxMemory)
	}
	r.Kill9()
	want(t, begun, health.Down)
	r.Restart()
	want(t, ended, health.Down)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestAUserWithoutRightsIsFound, whichever right is missing; pushes treat the shard as down, and everything recovers
// when it has the right.
func TestAUserWithoutRightsIsFound(t *testing.T) {
	r := redistest.Start(t, redistest.Options{Quick: true})
	root := r.Client()
	grant := func(rules ...any) {
		t.Helper()
		args := append([]any{"ACL", "SETUSER", "us", "reset", "on", ">pw", "~wk:*", "&wk:*", "+@all", "-@admin"},
			rules...)
		wait.For(t, "the rights", func() bool { return root.Do(t.Context(), args...).Err() == nil })
	}
	grant()
	q := queue.Open(store.Options{Timeout: wait.Limit})
	t.Cleanup(func() { _ = q.Close() })
	shards := []store.ShardConfig{{Name: "a", URL: "unix://us:pw@" + r.Addr(), State: "active"}}
	if err := q.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	if err := queuetest.Adopt(t.Context(), q.Shards.All()[0]); err != nil {
		t.Fatal(err)
	}
	push := func() error { return q.Push(t.Context(), store.Push{Topic: "t", Delay: time.Hour}).Err }
	begun, ended := make(chan Finding, 100), make(chan Finding, 100)
	c := New(Options{
		Shards: func() []Shard { return []Shard{q.Shards.All()[0]} },
		Every:  200 * time.Millisecond, // also the limit of a check
		Notify: func(f Finding) {
			if f.Ended.IsZero() {
				begun <- f
			} else {
				ended <- f
			}
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	if err := push(); err != nil {
		t.Fatalf("the rights that the documentation names do not suffice: %v", err)
	}
	for _, lacks := range []string{"-info", "-time", "-evalsha", "-publish", "resetkeys"} {
		grant(lacks)
		want(t, begun, health.Forbidden)
		wait.For(t, "a push without "+lacks+" to fail", func() bool {
			var un *store.UnavailableError
			err := push()
			return lacks == "-publish" || errors.As(err, &un) && store.Forbidden(q.Ready()) // not every push publishes
		})
		grant()
		want(t, ended, health.Forbidden)
		wait.For(t, "pushes to be accepted again", func() bool { return push() == nil })
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// want waits for a finding of a kind and skips others, which a busy machine may cause.
func want(t *testing.T, from <-chan Finding, kind health.Kind) {
	t.Helper()
	limit := time.After(wait.Limit)
	for {
		select {
		case f := <-from:
			if f.Kind == kind {
				return
			}
		case <-limit:
			t.Fatalf("not in time: %s", kind)
		}
	}
}

// TestHostsWithOtherSettingsAreFound by each other, until they agree; a process that only reads is not reported.
func TestHostsWithOtherSettingsAreFound(t *testing.T) {
	r := redistest.Start(t, redistest.Options{Quick: true})
	differ := func(host, settings string) string {
		t.Helper()
		q := queue.Open(store.Options{Host: host, Settings: settings, Timeout: wait.Limit})
		defer q.Close()
		shards := []store.ShardConfig{{Name: "a", URL: r.URL(), State: "active"}}
		if err := q.Shards.Set(shards); err != nil {
			t.Fatal(err)
		}
		wait.For(t, "the shard", func() bool { return queuetest.Adopt(t.Context(), q.Shards.All()[0]) == nil })
		h, problems := health.Try(t.Context(), q.Shards.All()[0])
		if !h.Up {
			t.Fatal(h.Err)
		}
		for _, p := range problems {
			if p.Kind == health.Settings {
				return p.Detail.Error()
			}
		}
		return ""
	}
	for _, look := range []struct{ host, settings, want string }{
		{"one", "5:3:2", ""},
		{"", "5:3:2", ""},
		{"", "8:1:1", "hosts have different settings: one has 5:3:2; this host has 8:1:1"},
		{"two", "8:1:1", "hosts have different settings: one has 5:3:2; this host has 8:1:1"},
		{"one", "5:3:2", "hosts have different settings: two has 8:1:1; this host has 5:3:2"},
		{"two", "5:3:2", ""},
		{"one", "5:3:2", ""},
	} {
		if got := differ(look.host, look.settings); got != look.want {
			t.Errorf("%+v: %q", look, got)
		}
	}
}
