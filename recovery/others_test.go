package recovery

import (
	"context"
	"testing"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// forgetful is a shard whose server is killed after the other host has told: it comes back without that.
type forgetful struct {
	Shard
	told, killed bool
}

func (f *forgetful) Name() string { return "redis-1" }

func (f *forgetful) Ask(context.Context, string) error { f.told = true; return nil }

func (f *forgetful) Told(_ context.Context, hosts []string, _ string) ([]string, error) {
	if f.told && !f.killed {
		return hosts, nil
	}
	return nil, nil
}

func (f *forgetful) Ends(_ context.Context, names []string) ([]string, error) {
	f.killed = true
	return make([]string, len(names)), nil
}

// TestWhatAServerForgotOfOtherHostsIsNoAnswer: a job that ended elsewhere must not be brought back because the server that was told so is gone.
func TestWhatAServerForgotOfOtherHostsIsNoAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	q := &inquiry{kept: &kept{Keeper: &Keeper{}, shard: &forgetful{}, wakeups: make(chan queue.Wakeup)}, hosts: []string{"other"}, about: "x"}
	if _, err := q.Ends(ctx, []string{"a job"}); err == nil {
		t.Error("nothing was told, and that was taken for an answer")
	}
}
