package app

import (
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/store"
)

// TestRecoveringOneShardNeedsOnlyThatOne: the error about a shard that is down suggests naming another one.
func TestRecoveringOneShardNeedsOnlyThatOne(t *testing.T) {
	shards := []store.ShardHealth{{Name: "a", Up: true}, {Name: "b", Err: "connection refused"}}
	for only, want := range map[string]string{
		"": "shard b does not answer", "a": "", "b": "shard b does not answer",
		"c": `no shard "c" in use; shards in use: a, b`,
	} {
		err := allAnswer(shards, only)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("--shard %q: %v", only, err)
		}
	}
}
