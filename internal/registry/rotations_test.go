package registry

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

func TestTheOldSecretIsRemovedAfterItsOverlap(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		ctx := t.Context()
		x := topic("t")
		x.Secrets = []string{oneSecret, anotherSecret}
		if _, err := r.PutTopic(ctx, "me", x); err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		if err := r.SetRotation(ctx, "me", "t", until); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Rotation(ctx, "t"); err != nil || !got.Equal(until) {
			t.Errorf("until %s, %v", got, err)
		}
		if err := r.EndRotations(ctx, until.Add(-time.Second)); err != nil ||
			len(r.Snapshot().Topics.Get("t").Secrets) != 2 {
			t.Errorf("before the end: %v, %d secrets", err, len(r.Snapshot().Topics.Get("t").Secrets))
		}
		if err := r.EndRotations(ctx, until.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if s := r.Snapshot().Topics.Get("t").Secrets; len(s) != 1 || s[0] != oneSecret {
			t.Errorf("the secrets are %q", s)
		}
		if got, err := r.Rotation(ctx, "t"); err != nil || !got.IsZero() {
			t.Errorf("after the end, it still has an end at %s, %v", got, err)
		}
		var fe *FieldError
		if err := r.SetRotation(ctx, "me", "t", time.Now().Add(1000*24*time.Hour)); !errors.As(err, &fe) {
			t.Errorf("too long: %v", err)
		}
		if err := r.SetRotation(ctx, "me", "nothing", until); !errors.Is(err, ErrNoTopic) {
			t.Errorf("unknown topic: %v", err)
		}
	})
}

// TestANewSecretAndTheEndOfTheOldAreOneStep: the end of an earlier overlap must not end the new one.
func TestANewSecretAndTheEndOfTheOldAreOneStep(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		ctx := t.Context()
		x := topic("t")
		x.Secrets = []string{oneSecret}
		put(t, r, x)
		for _, secret := range []string{anotherSecret, thirdSecret} {
			if err := r.RotateSecret(ctx, "me", "t", secret, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		if s := r.Snapshot().Topics.Get("t").Secrets; !slices.Equal(s, []string{thirdSecret, anotherSecret}) {
			t.Errorf("the secrets are %q", s)
		}
		trail, err := r.Audit(ctx, AuditFilter{Object: "topic/t", Action: "rotate"})
		if err != nil || len(trail) != 2 || !strings.Contains(string(trail[0].After), "old_secret_until") ||
			strings.Contains(string(trail[0].After), "whsec_") {
			t.Errorf("the trail is %+v, %v", trail, err)
		}
		x.Secrets = []string{oneSecret, anotherSecret} // put by somebody who wants it not to end
		put(t, r, x)
		if err := r.EndRotations(ctx, time.Now().Add(2*time.Hour)); err != nil ||
			len(r.Snapshot().Topics.Get("t").Secrets) != 2 {
			t.Errorf("an end set for other secrets: %v, they are %q", err, r.Snapshot().Topics.Get("t").Secrets)
		}
		if err := r.SetRotation(ctx, "me", "t", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := r.DeleteTopic(ctx, "me", "t", false); err != nil {
			t.Fatal(err)
		}
		if until, err := r.Rotation(ctx, "t"); err != nil || !until.IsZero() {
			t.Errorf("the topic is deleted, but its overlap lasts until %s, %v", until, err)
		}
	})
}

func TestATopicWithOneSecretHasNoOverlap(t *testing.T) {
	t.Parallel()
	r := open(t, Options{DSN: dbtest.SQLite(t)})
	x := topic("t")
	put(t, r, x)
	if err := r.RotateSecret(t.Context(), "me", "t", oneSecret, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if until, err := r.Rotation(t.Context(), "t"); err != nil || !until.IsZero() ||
		len(r.Snapshot().Topics.Get("t").Secrets) != 1 {
		t.Errorf("the first secret overlaps until %s, %v", until, err)
	}
	var fe *FieldError
	if err := r.SetRotation(t.Context(), "me", "t", time.Now().Add(time.Hour)); !errors.As(err, &fe) {
		t.Errorf("extending no overlap: %v", err)
	}
}

// TestOneHostEndsAnOverlap without overwriting a change that another host has just made.
func TestOneHostEndsAnOverlap(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		hosts := []*Registry{
			open(t, Options{DSN: dsn}),
			open(t, Options{DSN: dsn, Poll: time.Hour}),
			open(t, Options{DSN: dsn, Poll: time.Hour}),
		}
		x := topic("t")
		x.Secrets = []string{oneSecret}
		put(t, hosts[0], x)
		if err := hosts[0].RotateSecret(t.Context(), "me", "t", anotherSecret, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		for _, r := range hosts {
			r.Refresh(t.Context())
		}
		x = *hosts[0].Snapshot().Topics.Get("t")
		x.Title = "changed a moment before"
		put(t, hosts[0], x)
		var wg sync.WaitGroup
		errs := make([]error, len(hosts))
		for i, r := range hosts {
			wg.Go(func() { errs[i] = r.EndRotations(t.Context(), time.Now().Add(2*time.Hour)) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		hosts[0].Refresh(t.Context())
		eventually(
			t,
			"the old secret is gone",
			func() bool { return len(hosts[0].Snapshot().Topics.Get("t").Secrets) == 1 },
		)
		if got := hosts[0].Snapshot().Topics.Get("t").Title; got != x.Title {
			t.Errorf("the title is %q", got)
		}
		if trail, err := hosts[0].Audit(t.Context(), AuditFilter{Actor: "rotation"}); err != nil || len(trail) != 1 {
			t.Errorf("the trail is %+v, %v", trail, err)
		}
	})
}
