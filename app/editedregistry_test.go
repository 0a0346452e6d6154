package app

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
)

// TestAPinnedTopicFollowsItsShard: a topic stays pinned to a shard that is renamed, and cannot be pinned to an unknown
// one, because all shards would store its jobs.
func TestAPinnedTopicFollowsItsShard(t *testing.T) {
	r, err := registry.Open(registry.Options{
		DSN: "sqlite:" + filepath.Join(t.TempDir(), "r.db"), Migrate: registry.MigrateOlder, SecretKey: make([]byte, 32),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx := t.Context()
	a := registry.Shard{Name: "a", URL: "redis://h:1", State: registry.ShardActive}
	if err := r.PutShard(ctx, "me", a); err != nil {
		t.Fatal(err)
	}
	edited := &editedRegistry{r, conf.Default(), nil}
	pin := func(shard string) error {
		x := registry.NewTopic("t")
		x.CallbackURL, x.Shard = "http://h/", shard
		return edited.checkPinned(ctx, &x)
	}
	var field *registry.FieldError
	err = pin("b")
	if !errors.As(err, &field) || field.Field != "shard" || !strings.Contains(field.Detail(), "the shards are: a") {
		t.Errorf("a shard that does not exist: %v", err)
	}
	x, pool := registry.NewTopic("t"), registry.NewTopic("lmstfy-big.*")
	x.CallbackURL, x.Shard = "http://h/", "a"
	pool.Delivery, pool.Shard = registry.DeliveryPull, "a"
	for _, topic := range []registry.Topic{x, pool} {
		if _, err := r.PutTopic(ctx, "me", topic); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.RenameShard(ctx, "me", "a", "main"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(pin("a"), pin("main")); err != nil {
		t.Error(err)
	}
	p := &parts{registry: r}
	for _, topic := range []string{"t", "lmstfy-big.ns.q"} {
		if got := p.pinned(topic); got != "main" {
			t.Errorf("after the rename, %s is pinned to %q", topic, got)
		}
	}
}
