package registry

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/dbtest"
)

// secretTopic is a topic with a secret in each field that can hold one. Every secret contains "hidden".
func secretTopic(name string) Topic {
	x := topic(name)
	x.CallbackURL = "https://shop.example/close?key=hidden1"
	x.Headers = map[string]string{"Authorization": "Bearer hidden2", "X-Team": "shop"}
	x.Secrets = []string{"whsec_aGlkZGVuaGlkZGVuaGlkZGVuaGlkZGVu"} // hidden, four times
	return x
}

const secretURL = "redis://:hidden3@h:6379/0"

// stored returns the contents of the tables of topics and shards.
func stored(t *testing.T, r *Registry) string {
	t.Helper()
	var topics []topicRow
	var shards []shardRow
	err := r.db.Do(t.Context(), func(tx *gorm.DB) error {
		return errors.Join(tx.Find(&topics).Error, tx.Find(&shards).Error)
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(topics, shards)
}

// wantSealed checks that the database has the topic and the shard without their secrets in clear text.
func wantSealed(t *testing.T, r *Registry) {
	t.Helper()
	text := stored(t, r)
	for _, want := range []string{"https://shop.example/close", "X-Team", "Authorization"} {
		if !strings.Contains(text, want) {
			t.Errorf("the database does not have %s", want)
		}
	}
	for _, secret := range []string{"hidden", "aGlkZGVu"} {
		if strings.Contains(text, secret) {
			t.Errorf("the database has %s in clear text:\n%q", secret, text)
		}
	}
}

func wantSecrets(t *testing.T, r *Registry) {
	t.Helper()
	want, got := secretTopic("shop.close"), r.Snapshot().Topics.Get("shop.close")
	if got == nil || got.CallbackURL != want.CallbackURL || !reflect.DeepEqual(got.Headers, want.Headers) ||
		!reflect.DeepEqual(got.Secrets, want.Secrets) {
		t.Errorf("the topic was read as %+v", got)
	}
	if list := r.ListShards(); len(list) != 1 || list[0].URL != secretURL {
		t.Errorf("the shards were read as %v", list)
	}
}

func putSecrets(t *testing.T, r *Registry) {
	t.Helper()
	put(t, r, secretTopic("shop.close"))
	if err := r.PutShard(t.Context(), "me", Shard{Name: "one", URL: secretURL, State: ShardActive}); err != nil {
		t.Fatal(err)
	}
}

func TestTheDatabaseShowsNoSecret(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		putSecrets(t, r)
		wantSealed(t, r)
		wantSecrets(t, r)
		wantSecrets(t, open(t, Options{DSN: dsn})) // another process
		revision := r.Snapshot().Revision
		putSecrets(t, r)
		if r.Snapshot().Revision != revision {
			t.Error("storing the same secrets again changed the revision")
		}
	})
}

// TestAnotherKeyIsAnErrorThatLosesNothing: a host with another key does not start; with the right key it does.
func TestAnotherKeyIsAnErrorThatLosesNothing(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn, SecretKey: secretKey(1)})
		putSecrets(t, r)
		before := stored(t, r)
		for range 2 {
			if _, err := Open(Options{DSN: dsn, SecretKey: secretKey(2), Migrate: MigrateOlder}); !errors.Is(
				err, ErrOtherKey) ||
				!strings.Contains(err.Error(), "registry.seal_key") {
				t.Errorf("with another key: %v", err)
			}
		}
		if stored(t, r) != before {
			t.Error("a start with another key changed the stored data")
		}
		wantSecrets(t, open(t, Options{DSN: dsn, SecretKey: secretKey(1)}))
	})
}

// TestOfHostsThatStartTogetherOneKeyWins: each host has its own key, and one of these becomes the registry's.
func TestOfHostsThatStartTogetherOneKeyWins(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		start := func(n int) (*Registry, error) {
			return Open(Options{DSN: dsn, SecretKey: secretKey(byte(n)), Migrate: MigrateOlder})
		}
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				r, err := start(n)
				if err != nil {
					return
				}
				_, _ = r.PutTopic(t.Context(), "me", secretTopic("shop.close")) // refused on a host with another key
				_ = r.PutShard(t.Context(), "me", Shard{Name: "one", URL: secretURL, State: ShardActive})
				_ = r.Close()
			})
		}
		wg.Wait()
		winners := 0
		for n := range 4 {
			r, err := start(n)
			if errors.Is(err, ErrOtherKey) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			winners++
			wantSealed(t, r)
			wantSecrets(t, r)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		if winners != 1 {
			t.Errorf("%d keys open the registry", winners)
		}
	})
}

// TestAHostWithAnotherKeyWorksWithoutSecrets: it stores no secrets, and a topic that gets some stays, but is not
// called.
func TestAHostWithAnotherKeyWorksWithoutSecrets(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		one := open(t, Options{DSN: dsn, SecretKey: secretKey(1)})
		put(t, one, topic("shop.close"))
		file := filepath.Join(t.TempDir(), "snapshot.json")
		two := open(t, Options{DSN: dsn, SecretKey: secretKey(2), SnapshotFile: file})
		put(t, two, topic("plain"))
		if _, err := two.PutTopic(t.Context(), "me", secretTopic("secret")); !errors.Is(err, seal.ErrKey) {
			t.Errorf("storing a secret: %v", err)
		}
		if x := two.Snapshot().Topics.Get("shop.close"); x == nil || x.Locked {
			t.Fatalf("before it has secrets, the topic is %+v", x)
		}
		putSecrets(t, one)
		locked := func(s *Snapshot) bool {
			x := s.Topics.Get("shop.close")
			return x != nil && x.Locked && len(x.Secrets) == 0 && x.CallbackURL == "https://shop.example/close"
		}
		eventually(t, "the other host to see that the topic is locked", func() bool { return locked(two.Snapshot()) })
		eventually(t, "its snapshot to show the lock", func() bool {
			s, err := readSnapshot(file)
			return err == nil && locked(s)
		})
		if _, err := two.PutTopic(t.Context(), "me", topic("shop.close")); !errors.Is(err, seal.ErrKey) {
			t.Errorf("changing a locked topic: %v", err)
		}
		wantSecrets(t, open(t, Options{DSN: dsn, SecretKey: secretKey(1)}))
	})
}

// TestALostKeyIsReplaced: topics and shards stay, wait until their secrets are entered again, and then continue.
func TestALostKeyIsReplaced(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		putSecrets(t, open(t, Options{DSN: dsn, SecretKey: secretKey(1)}))
		for _, want := range []Forgotten{{Topics: 1, Shards: 1}, {}} {
			lost, err := ForgetSecrets(t.Context(), Options{DSN: dsn, SecretKey: secretKey(2)})
			if err != nil || lost != want {
				t.Fatalf("%+v were forgotten, want %+v (%v)", lost, want, err)
			}
		}
		r := open(t, Options{DSN: dsn, SecretKey: secretKey(2)})
		x := r.Snapshot().Topics.Get("shop.close")
		if x == nil || x.State != TopicPaused || x.CallbackURL != "https://shop.example/close" || len(x.Secrets) != 0 ||
			!reflect.DeepEqual(x.Headers, map[string]string{"X-Team": "shop"}) {
			t.Errorf("the topic is %+v", x)
		}
		if note := r.Snapshot().Notes.Get("shop.close"); note.PauseReason != forgotten {
			t.Errorf("it is paused because %q", note.PauseReason)
		}
		if list := r.ListShards(); len(list) != 1 || list[0].URL != "" || list[0].State != ShardOffline {
			t.Errorf("the shards are %v", list)
		}
		putSecrets(t, r)
		wantSealed(t, r)
		wantSecrets(t, r)
	})
}

// TestMasksAreNoValues: sending back a masked value changes nothing, and a mask of another value is refused.
func TestMasksAreNoValues(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		x := secretTopic("shop.close")
		shown := *x.Masked()
		if text := fmt.Sprint(shown); strings.Contains(text, "hidden") || strings.Contains(text, "aGlkZGVu") {
			t.Errorf("masked it is %s", text)
		}
		shown.Secrets = nil
		if _, err := r.PutTopic(t.Context(), "me", shown); err == nil {
			t.Error("masks are accepted as the values of a new topic")
		}
		putSecrets(t, r)
		shown.Title = "changed"
		put(t, r, shown)
		wantSecrets(t, r)
		other := secretTopic("shop.close")
		other.Headers["Authorization"] = seal.Fingerprint("something else")
		if _, err := r.PutTopic(t.Context(), "me", other); err == nil || !strings.Contains(err.Error(), "mask") {
			t.Errorf("the mask of another header: %v", err)
		}
		other = secretTopic("shop.close")
		other.CallbackURL = "https://elsewhere.example/?" + seal.Fingerprint("key=hidden1")
		if _, err := r.PutTopic(t.Context(), "me", other); err == nil || !strings.Contains(err.Error(), "mask") {
			t.Errorf("the mask of a query with another address: %v", err)
		}
		wantSecrets(t, r)
	})
}
