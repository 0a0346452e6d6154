package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/dbtest"
)

// Everything that the registry does is tested on all databases.

func TestTopics(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		x := topic("shop.close")
		x.Title, x.Secrets, x.Headers = "Schließen 🛒", []string{oneSecret}, map[string]string{"X-Team": "shop"}
		x.Retry, x.RateLimit, x.Emails = []Duration{Duration(time.Second)}, 0.5, []string{"a@b.example"}
		if created, err := r.PutTopic(t.Context(), "me", x); err != nil || !created {
			t.Fatalf("put = %v, %v", created, err)
		}
		got := *r.Snapshot().Topics.Get("shop.close")
		if got.CreatedAt.IsZero() || !got.CreatedAt.Equal(got.UpdatedAt) || got.CreatedAt.Location() != time.UTC {
			t.Errorf("created %v, updated %v", got.CreatedAt, got.UpdatedAt)
		}
		created := got.CreatedAt
		got.CreatedAt, got.UpdatedAt = time.Time{}, time.Time{}
		if !reflect.DeepEqual(got, x) {
			t.Errorf("right after the put the snapshot has\n%+v, not\n%+v", got, x)
		}
		x.Title = "Titel"
		if created, err := r.PutTopic(t.Context(), "me", x); err != nil || created {
			t.Fatalf("second put = %v, %v", created, err)
		}
		if got := r.Snapshot().Topics.Get("shop.close"); got.Title != "Titel" || !got.CreatedAt.Equal(created) ||
			!got.UpdatedAt.After(created) {
			t.Errorf("after the second put: %+v", got)
		}
		if err := r.DeleteTopic(t.Context(), "me", "shop.close", false); err != nil ||
			r.Snapshot().Topics.Get("shop.close") != nil {
			t.Errorf("delete: %v", err)
		}
		if err := r.DeleteTopic(t.Context(), "me", "shop.close", false); !errors.Is(err, ErrNoTopic) ||
			!strings.Contains(err.Error(), "shop.close") {
			t.Errorf("delete of an unknown topic: %v", err)
		}
		var fe *FieldError
		if _, err := r.PutTopic(t.Context(), "me", NewTopic("t")); !errors.As(err, &fe) || fe.Field != "callback_url" {
			t.Errorf("put of an invalid topic: %v", err)
		}
	})
}

func TestSecretsStayUntilTheyAreReplaced(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		for i, step := range []struct {
			put  []string
			want int
		}{{[]string{oneSecret}, 1}, {nil, 1}, {[]string{anotherSecret, oneSecret}, 2}, {nil, 2}, {[]string{}, 0},
			{nil, 0}} {
			x := topic("t")
			x.Title, x.Secrets = fmt.Sprint(i), step.put
			put(t, r, x)
			if got := r.Snapshot().Topics.Get("t").Secrets; len(got) != step.want {
				t.Errorf("step %d: put %v left %v", i, step.put, got)
			}
		}
	})
}

func TestAnUnchangedTopicIsNoChange(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		announced := 0
		r := open(t, Options{DSN: dsn, SecretKey: seal.Key{}, Announce: func(context.Context, int64) { announced++ }})
		shard := Shard{Name: "one", URL: "redis://h:1", State: ShardActive}
		for range 2 {
			put(t, r, topic("t"))
			if err := r.PutShard(t.Context(), "me", shard); err != nil {
				t.Fatal(err)
			}
		}
		trail, err := r.Audit(t.Context(), AuditFilter{})
		if err != nil || len(trail) != 2 || announced != 2 || r.Snapshot().Revision != 3 {
			t.Errorf(
				"%d entries, %d announcements, revision %d, %v; want 2, 2 and 3",
				len(trail),
				announced,
				r.Snapshot().Revision,
				err,
			)
		}
	})
}

func TestAudit(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn, SecretKey: secretKey(1)})
		x := topic("shop.close")
		x.Secrets, x.Headers = []string{
			oneSecret,
		}, map[string]string{
			"Authorization": "Bearer hidden",
			"X-Team":        "shop",
		}
		put(t, r, x)
		x.Secrets, x.Title = []string{anotherSecret}, "Titel"
		if _, err := r.PutTopic(t.Context(), "you", x); err != nil {
			t.Fatal(err)
		}
		if err := r.DeleteTopic(t.Context(), strings.Repeat("long ", 100), "shop.close", false); err != nil {
			t.Fatal(err)
		}
		shard := Shard{Name: "s", URL: "redis://:hidden@h:2", State: ShardDraining}
		if err := r.PutShard(t.Context(), "me", shard); err != nil {
			t.Fatal(err)
		}
		_, token, err := r.CreateToken(t.Context(), "me", "team", []Right{RightPush}, []string{"shop.*"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.PutSetting(t.Context(), "me", "mail", mailSettings{Password: "hidden hidden"}); err != nil {
			t.Fatal(err)
		}
		trail, err := r.Audit(t.Context(), AuditFilter{Object: "topic/shop.close"})
		if err != nil || len(trail) != 3 {
			t.Fatalf("audit = %+v, %v", trail, err)
		}
		del, change, create := trail[0], trail[1], trail[2]
		if string(create.Before) != "null" || string(del.After) != "null" || change.Actor != "you" ||
			change.Action != "put" ||
			time.Since(change.At) > time.Minute {
			t.Errorf("audit = %s, %s, %+v", create.Before, del.After, change)
		}
		if string(change.Before) == string(change.After) || !strings.Contains(string(change.After), "Titel") ||
			strings.Contains(string(change.Before), "Titel") {
			t.Errorf("before %s, after %s", change.Before, change.After)
		}
		all, err := r.Audit(t.Context(), AuditFilter{})
		if err != nil || len(all) != 7 { // the first is for the secret key
			t.Fatalf("%d entries, %v", len(all), err)
		}
		text := fmt.Sprint(all)
		for _, e := range all {
			text += string(e.Before) + string(e.After)
		}
		for _, secret := range []string{"whsec_", "hidden", token.Hash, "$2a$"} {
			if strings.Contains(text, secret) {
				t.Errorf("the audit trail shows %s: %s", secret, text)
			}
		}
		for filter, want := range map[AuditFilter]int{
			{Actor: "you"}: 1, {Action: "create"}: 1, {Limit: 2}: 2, {Before: all[5].ID}: 1,
			{Object: tokenObject(token)}: 1,
			{Actor: "nobody"}:            0,
		} {
			if list, err := r.Audit(t.Context(), filter); err != nil || len(list) != want {
				t.Errorf("%+v: %d entries, %v; want %d", filter, len(list), err, want)
			}
		}
	})
}

func TestTokens(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		ctx := t.Context()
		r := open(t, Options{DSN: dsn})
		secret, tok, err := r.CreateToken(ctx, "me", "team", []Right{RightPush}, []string{"shop.*", "bank.pay"}, nil)
		if err != nil || !strings.HasPrefix(secret, "wk_") || len(secret) < 43 ||
			strings.Contains(fmt.Sprint(*tok), secret) {
			t.Fatalf("%s, %+v, %v", secret, tok, err)
		}
		second, _, err := r.CreateToken(ctx, "me", "team", []Right{RightManage, RightRead}, []string{"*"}, nil)
		if err != nil || second == secret {
			t.Fatal(second, err)
		}
		got, ok := r.Snapshot().Token(secret)
		if !ok || !reflect.DeepEqual(got, tok) {
			t.Fatalf("the snapshot has %+v, not %+v", got, tok)
		}
		for _, c := range []struct {
			right Right
			topic string
			want  bool
		}{
			{RightPush, "shop.close", true}, {RightPush, "bank.pay", true}, {RightPush, "bank.pays", false},
			{RightRead, "shop.close", false},
			{RightPush, "shop", false}, {RightPush, "bank.close", false},
		} {
			if got.Allows(c.right, c.topic) != c.want {
				t.Errorf("%s of %s: want %v", c.right, c.topic, c.want)
			}
		}
		for _, wrong := range []string{"", "wk_", secret + "x", tok.Hash} {
			if _, ok := r.Snapshot().Token(wrong); ok {
				t.Errorf("%q was accepted as a token", wrong)
			}
		}
		if list := r.ListTokens(); len(list) != 2 || list[0].ID != tok.ID || list[0].Name != "team" {
			t.Errorf("list = %+v", list)
		}
		if err := r.RevokeToken(ctx, "me", tok.ID); err != nil {
			t.Fatal(err)
		}
		if _, ok := r.Snapshot().Token(secret); ok {
			t.Error("a revoked token works")
		}
		if err := r.RevokeToken(ctx, "me", tok.ID); !errors.Is(err, ErrNoToken) {
			t.Errorf("second revocation: %v", err)
		}
	})
}

func TestShards(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		ctx := t.Context()
		a, b := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn})
		first := Shard{Name: "local", URL: "redis://:pw@h:1", State: ShardActive, Identity: "i"}
		for _, seed := range [][]Shard{nil, {first}, {first, {Name: "other", URL: "redis://h:2", State: ShardActive}}} {
			for _, r := range []*Registry{a, b} {
				if err := r.SeedShards(ctx, seed); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := b.ListShards(); len(got) != 1 || got[0] != first {
			t.Fatalf("shards = %+v", got)
		}
		first.State = ShardOffline
		if err := a.PutShard(ctx, "me", first); err != nil {
			t.Fatal(err)
		}
		if got := a.ListShards(); len(got) != 1 || got[0] != first {
			t.Errorf("shards = %+v", got)
		}
		if err := a.DeleteShard(ctx, "me", "local"); err != nil {
			t.Fatal(err)
		}
		if err := a.DeleteShard(ctx, "me", "local"); !errors.Is(err, ErrNoShard) {
			t.Errorf("delete of an unknown shard: %v", err)
		}
		if err := a.SeedShards(ctx, []Shard{first}); err != nil || len(a.ListShards()) != 0 {
			t.Errorf("a deleted shard was seeded again: %v", err)
		}
		for _, wrong := range []Shard{
			{Name: "A", URL: "redis://h", State: ShardActive}, {Name: "a", URL: "", State: ShardActive},
			{Name: "a", URL: "redis://h", State: "asleep"},
		} {
			var fe *FieldError
			if err := a.PutShard(ctx, "me", wrong); !errors.As(err, &fe) {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
	})
}

// TestAShardKeepsItsIdentity when its name, address or state changes.
func TestAShardKeepsItsIdentity(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		ctx := t.Context()
		a, b := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn})
		if err := a.PutShard(ctx, "me", Shard{Name: "one", URL: "redis://h:1", State: ShardActive}); err != nil {
			t.Fatal(err)
		}
		identity := a.ListShards()[0].Identity
		if identity == "" || identity == "one" {
			t.Fatalf("identity = %q", identity)
		}
		if err := a.PutShard(ctx, "me", Shard{Name: "one", URL: "redis://h:2", State: ShardDraining}); err != nil {
			t.Fatal(err)
		}
		for _, name := range [][2]string{{"one", "two"}, {"two", "three"}} {
			if err := a.RenameShard(ctx, "me", name[0], name[1]); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the names are known to the other process", func() bool {
			b.Refresh(ctx)
			list := b.ListShards()
			return len(list) == 1 && list[0].Name == "three"
		})
		want := Shard{Name: "three", URL: "redis://h:2", State: ShardDraining, Identity: identity, Former: "one two"}
		for _, r := range []*Registry{a, b} {
			if got := r.ListShards(); len(got) != 1 || got[0] != want {
				t.Errorf("shards = %+v; want %+v", got, want)
			}
		}
		var field *FieldError
		if err := a.PutShard(ctx, "me", Shard{Name: "one", URL: "redis://h:3", State: ShardActive}); !errors.As(
			err, &field) {
			t.Errorf("a new shard under a former name of another: %v", err)
		}
		if err := a.PutShard(ctx, "me", Shard{Name: "else", URL: "redis://h:3", State: ShardActive}); err != nil {
			t.Fatal(err)
		}
		for _, taken := range []string{"three", "two"} {
			if err := a.RenameShard(ctx, "me", "else", taken); !errors.As(err, &field) {
				t.Errorf("rename to %s, which is in use: %v", taken, err)
			}
		}
		if err := a.DeleteShard(ctx, "me", "else"); err != nil {
			t.Fatal(err)
		}
		for _, name := range [][2]string{{"three", "two"}, {"two", "three"}} {
			if err := a.RenameShard(ctx, "me", name[0], name[1]); err != nil {
				t.Fatal(err)
			}
		}
		if former := a.ListShards()[0].Former; former != "one two three" {
			t.Errorf("former names: %q", former)
		}
		if err := a.RenameShard(ctx, "me", "two", "four"); !errors.Is(err, ErrNoShard) {
			t.Errorf("rename of an unknown shard: %v", err)
		}
		trail, err := a.Audit(ctx, AuditFilter{Object: "shard/three", Action: "rename"})
		if err != nil || len(trail) != 2 || !strings.Contains(string(trail[0].Before), `"two"`) {
			t.Errorf("audit trail: %+v, %v", trail, err)
		}
	})
}

func TestSeedingKeepsShardsAddedBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	r := open(t, Options{DSN: dbtest.SQLite(t)})
	mine := Shard{Name: "redis-1", URL: "redis://mine", State: ShardActive, Identity: "i"}
	if err := r.PutShard(t.Context(), "me", mine); err != nil {
		t.Fatal(err)
	}
	if err := r.SeedShards(
		t.Context(), []Shard{{Name: "redis-1", URL: "redis://other", State: ShardActive}}); err != nil {
		t.Fatal(err)
	}
	if got := r.ListShards(); len(got) != 1 || got[0] != mine {
		t.Errorf("shards = %+v", got)
	}
}

func privateFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", path, info.Mode(), err)
	}
	return strings.TrimSpace(string(b))
}

func TestManyWriters(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		a, b := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn})
		before := a.Snapshot().Revision
		const writers = 20
		var wg sync.WaitGroup
		errs := make([]error, writers)
		for i := range writers {
			wg.Go(func() { _, errs[i] = []*Registry{a, b}[i%2].PutTopic(t.Context(), "me", topic(fmt.Sprint("t", i))) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Registry{a, b} {
			eventually(t, "all changes are seen", func() bool {
				s := r.Snapshot()
				return s.Topics.Len() == writers && s.Revision == before+writers
			})
		}
	})
}

func TestAnErrorOfTheRequestIsNotAnOutage(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		if err := dbtest.Run(r.db, "DROP TABLE audit"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Audit(t.Context(), AuditFilter{}); err == nil || errors.Is(err, ErrUnavailable) || !r.Up() {
			t.Errorf("without the table: %v, up %v", err, r.Up())
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.PutTopic(gone, "me", topic("t")); !errors.Is(err, context.Canceled) ||
			errors.Is(err, ErrUnavailable) {
			t.Errorf("a canceled call: %v", err)
		}
	})
}

func TestOneOfSeveralHostsMakesTheFirstAccess(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		const hosts = 4
		dirs, made, errs := [hosts]string{}, [hosts][]string{}, [hosts]error{}
		var wg sync.WaitGroup
		var first *Registry
		for i := range hosts {
			r := open(t, Options{DSN: dsn})
			first, dirs[i] = r, t.TempDir()
			wg.Go(func() { made[i], errs[i] = r.Bootstrap(t.Context(), dirs[i], "", testUser) })
		}
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		var files []string
		for i := range hosts {
			files = append(files, made[i]...)
			if entries, err := os.ReadDir(dirs[i]); err != nil || len(entries) != len(made[i]) {
				t.Errorf("host %d created %v, and its directory has %v", i, made[i], entries)
			}
		}
		if len(files) != 2 || filepath.Base(files[0]) != TokenFile || filepath.Base(files[1]) != PasswordFile {
			t.Fatalf("made %v", files)
		}
		token, password := privateFile(t, files[0]), privateFile(t, files[1])
		if password != "a password" {
			t.Errorf("the first password is %q", password)
		}
		eventually(t, "the first token works", func() bool { _, ok := first.Snapshot().Token(token); return ok })
		got, _ := first.Snapshot().Token(token)
		if !got.Allows(RightManage, "x") || !got.Allows(RightPush, "x") || !got.Allows(RightRead, "x") {
			t.Errorf("the first token has %+v", got)
		}
	})
}

// testUser stands in for the code that creates the first user.
func testUser(*gorm.DB) (password string, err error) { return "a password", nil }
