package overview

import (
	"errors"
	"testing"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

type shardList []registry.Shard

func (l shardList) ListShards() []registry.Shard { return l }
func (l shardList) Up() bool                     { return true }

func TestAnswersOfSomeShardsCount(t *testing.T) {
	t.Parallel()
	active := registry.Shard{URL: "redis://h/0", State: registry.ShardActive}
	h := New(nil, Options{Registry: shardList{active, active}}, nil, nil)
	if !h.someAnswered(&queue.PartialError{Shards: []string{"s1"}}) {
		t.Error("one of two shards is down, and the other's numbers do not count")
	}
	if h.someAnswered(&queue.PartialError{Shards: []string{"s1", "s2"}}) || h.someAnswered(errors.New("other")) {
		t.Error("no shard answered, and the numbers count")
	}
}
