package registry

import (
	"errors"
	"testing"
	"time"
)

func TestTheOldSecretGoesWhenItsTimeIsOver(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
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
		if err := r.EndRotations(ctx, until.Add(-time.Second)); err != nil || len(r.Snapshot().Topics["t"].Secrets) != 2 {
			t.Errorf("before its time: %v, %d secrets", err, len(r.Snapshot().Topics["t"].Secrets))
		}
		if err := r.EndRotations(ctx, until.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if s := r.Snapshot().Topics["t"].Secrets; len(s) != 1 || s[0] != oneSecret {
			t.Errorf("the secrets are %q", s)
		}
		if got, err := r.Rotation(ctx, "t"); err != nil || !got.IsZero() {
			t.Errorf("it is over, and says until %s, %v", got, err)
		}
		var fe *FieldError
		if err := r.SetRotation(ctx, "me", "t", time.Now().Add(1000*24*time.Hour)); !errors.As(err, &fe) {
			t.Errorf("too long: %v", err)
		}
		if err := r.SetRotation(ctx, "me", "nothing", until); !errors.Is(err, ErrNoTopic) {
			t.Errorf("no topic: %v", err)
		}
	})
}
