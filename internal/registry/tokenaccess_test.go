package registry

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

func TestATokenMayExpire(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r, other := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn})
		at := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
		secret, token, err := r.CreateToken(t.Context(), "me", "team", []Right{RightPush}, []string{"*"}, &at)
		if err != nil {
			t.Fatal(err)
		}
		always, _, err := r.CreateToken(t.Context(), "me", "old", []Right{RightPush}, []string{"*"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the tokens are known to the other process", func() bool {
			other.Refresh(t.Context())
			_, known := other.Snapshot().Token(always)
			return known
		})
		for _, r := range []*Registry{r, other} {
			got, _ := r.Snapshot().Token(secret)
			if !reflect.DeepEqual(got, token) || got.Expired(at.Add(-time.Nanosecond)) || !got.Expired(at) {
				t.Errorf("the snapshot has %+v, not %+v", got, token)
			}
			if got, _ := r.Snapshot().Token(always); got == nil || got.ExpiresAt != nil ||
				got.Expired(at.Add(1e6*time.Hour)) {
				t.Errorf("a token without an expiry is %+v", got)
			}
		}
		if err := r.RevokeToken(t.Context(), "me", token.ID); err != nil {
			t.Fatal(err)
		}
		trail, err := r.Audit(t.Context(), AuditFilter{Object: tokenObject(token)})
		if err != nil || len(trail) != 2 {
			t.Fatalf("audit = %+v, %v", trail, err)
		}
		want := `"expires_at":"` + at.Format(time.RFC3339) + `"`
		if !strings.Contains(string(trail[0].Before), want) || !strings.Contains(string(trail[1].After), want) {
			t.Errorf("audit = %s and %s, want %s", trail[0].Before, trail[1].After, want)
		}
	})
}

// Whether a token covers another is decided by its rights and the characters of its patterns.
func TestATokenCoversWhatAllowsLess(t *testing.T) {
	t.Parallel()
	token := func(rights, topics string) *Token {
		var list []Right
		for r := range strings.FieldsSeq(rights) {
			list = append(list, Right(r))
		}
		return &Token{Rights: list, Topics: strings.Fields(topics)}
	}
	for _, c := range []struct {
		rights, topics string
		want           bool
	}{
		{"push read", "shop.* bank", true}, {"push", "shop.orders", true}, {"push", "shop.o*", true},
		{"push", "bank", true},
		{"manage", "bank", false}, {"push manage", "bank", false}, {"push", "*", false}, {"push", "shop*", false},
		{"push", "shop.", true}, {"push", "shop", false}, {"push", "bank*", false}, {"push", "bank.*", false},
		{"push", "shop.* other", false},
	} {
		if got := token("push read", "shop.* bank").Covers(token(c.rights, c.topics)); got != c.want {
			t.Errorf("%s on %s: %t", c.rights, c.topics, got)
		}
	}
	if all := token("push read", "*"); !all.Covers(token("push", "* a a*")) {
		t.Error("all topics do not cover some")
	}
}

// The last use has a resolution of a minute, never goes back, and is not a change that other processes would read.
func TestLastUsesOfTokens(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		ctx := t.Context()
		r := open(t, Options{DSN: dsn})
		expires := time.Now().Add(time.Hour)
		var ids [3]uint64
		for i, e := range []*time.Time{&expires, nil, nil} {
			_, token, err := r.CreateToken(ctx, "me", "team", []Right{RightPush}, []string{"*"}, e)
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = token.ID
		}
		if err := r.RevokeToken(ctx, "me", ids[2]); err != nil {
			t.Fatal(err)
		}
		before := r.Snapshot()
		noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
		for _, use := range []struct {
			ids []uint64
			at  time.Duration
		}{{ids[:], 30 * time.Second}, {ids[:1], time.Minute}, {ids[:1], 0}, {nil, time.Hour}} {
			if err := r.NoteTokenUses(ctx, use.ids, noon.Add(use.at)); err != nil {
				t.Fatal(err)
			}
		}
		uses, err := r.TokenUses(ctx)
		want := map[uint64]time.Time{ids[0]: noon.Add(time.Minute), ids[1]: noon}
		if err != nil || !reflect.DeepEqual(uses, want) {
			t.Errorf("uses = %v, %v; want %v", uses, err, want)
		}
		if err := r.follow(ctx); err != nil || r.Snapshot() != before {
			t.Errorf("the snapshot was read again: %v", err)
		}
		if trail, err := r.Audit(ctx, AuditFilter{}); err != nil || len(trail) != 5 { // with the key's
			t.Errorf("%d entries, %v", len(trail), err)
		}
	})
}

func TestExpiriesAreRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 5e8, time.UTC)
	for text, want := range map[string]string{
		"90d": "2026-04-02T12:00:00Z", "12h": "2026-01-03T00:00:00Z", "1h30m": "2026-01-02T13:30:00Z",
		"2030-01-31T08:00:00Z": "2030-01-31T08:00:00Z", "2030-01-31T08:00:00.9+02:00": "2030-01-31T06:00:00Z",
		"36500d": "2125-12-09T12:00:00Z",
	} {
		if at, err := ParseExpiry(text, now); err != nil || at.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %v, %v; want %s", text, at, err, want)
		}
	}
	if at, err := ParseExpiry("", now); at != nil || err != nil {
		t.Errorf("no expiry: %v, %v", at, err)
	}
	for text, word := range map[string]string{
		"soon": "such as 90d", "d": "such as 90d", "1.5d": "such as 90d", "90": "such as 90d",
		"9999999999d": "such as 90d",
		"2030-01-31":  "such as 90d", "0d": "future", "-1d": "future", "-9h": "future", "400ms": "future",
		"2026-01-02T12:00:00Z": "future", "36502d": "100 years", "2000000000d": "100 years",
		"9999-01-01T00:00:00Z": "100 years",
	} {
		var fe *FieldError
		if _, err := ParseExpiry(text, now); !errors.As(err, &fe) || fe.Field != "expires_at" ||
			!strings.Contains(fe.Detail(), word) {
			t.Errorf("%s: %v, want %s", text, err, word)
		}
	}
}
