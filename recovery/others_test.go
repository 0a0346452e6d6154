package recovery

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"
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

func (f *forgetful) TellEnds(context.Context, map[string]string) error { return nil }

func (f *forgetful) NoteTold(context.Context, string, string) error { return nil }

func (f *forgetful) Ends(_ context.Context, names []string) ([]string, error) {
	f.killed = true
	return make([]string, len(names)), nil
}

// TestWhatAServerForgotOfOtherHostsIsNoAnswer: a job that ended elsewhere must not be brought back because the server that was told so is gone.
func TestWhatAServerForgotOfOtherHostsIsNoAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	q := &inquiry{kept: &kept{Keeper: &Keeper{}, shard: &forgetful{}}, hosts: []string{"other"}, about: "x"}
	if _, err := q.Ends(ctx, []string{"a job"}); err == nil {
		t.Error("nothing was told, and that was taken for an answer")
	}
}

// TestAHostThatOnlyAsksIsAtWork: while it compares its journal it says nothing in the data, for minutes perhaps; its deletions must be asked for.
func TestAHostThatOnlyAsksIsAtWork(t *testing.T) {
	k := &kept{Keeper: &Keeper{host: "me", hosts: loadHosts(t.TempDir(), "me"), opts: KeeperOptions{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}}, shard: &forgetful{}}
	for _, about := range []string{"busy QUESTION", everything + "busier QUESTION", "me QUESTION", hello + "fresh"} {
		k.answer(t.Context(), about)
	}
	if got := k.hosts.others(); !slices.Equal(got, []string{"busier", "busy", "fresh"}) {
		t.Errorf("at work are %v", got)
	}
}
