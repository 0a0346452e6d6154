package health

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

var good = store.ShardHealth{Up: true, Version: "7.2.4", Memory: 50, MaxMemory: 100, Policy: "noeviction", AOF: true}

func kinds(problems []Problem) []Kind {
	var list []Kind
	for _, p := range problems {
		list = append(list, p.Kind)
	}
	return list
}

func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*store.ShardHealth)
		want    []Kind
		watched bool
	}{
		"nothing is wrong": {func(*store.ShardHealth) {}, nil, true},
		"6.2 is too old": {func(h *store.ShardHealth) { h.Version = "6.2.14" }, []Kind{Version},
			false},
		"a version of another kind is not": {func(h *store.ShardHealth) { h.Version = "unstable" }, nil, true},
		"the disk is full": {func(h *store.ShardHealth) { h.WriteError = "disk full" }, []Kind{WriteError},
			true},
		"jobs are evicted": {func(h *store.ShardHealth) { h.Policy = "allkeys-lru" }, []Kind{Eviction}, true},
		"jobs would be evicted with a limit": {
			func(h *store.ShardHealth) { h.Policy, h.MaxMemory = "allkeys-lru", 0 }, []Kind{Eviction, Unlimited}, false,
		},
		"no master":                   {func(h *store.ShardHealth) { h.LinkDown = true }, []Kind{LinkDown}, true},
		"at the limit":                {func(h *store.ShardHealth) { h.Memory = 85 }, nil, true},
		"over the limit":              {func(h *store.ShardHealth) { h.Memory = 86 }, []Kind{Memory}, true},
		"no append-only file":         {func(h *store.ShardHealth) { h.AOF = false }, []Kind{NoAOF}, false},
		"jobs are there":              {func(h *store.ShardHealth) { h.Jobs = 1 }, []Kind{HasJobs}, false},
		"ten million jobs of a topic": {func(h *store.ShardHealth) { h.LargestJobs = LargeTopic }, nil, true},
		"more of them": {
			func(h *store.ShardHealth) { h.Largest, h.LargestJobs = "t", LargeTopic+1 }, []Kind{Large}, true,
		},
		"more than a million on a Cluster": {
			func(h *store.ShardHealth) { h.Cluster, h.LargestJobs = true, LargeOnCluster+1 }, []Kind{Large}, true,
		},
		"one of several masters has a bad setting": {func(h *store.ShardHealth) {
			h.Config = []map[string]string{{"appendfsync": "everysec"}, {"appendfsync": "no", "save": "", "other": ""}}
		}, []Kind{"appendfsync"}, false},
		"snapshots are all there is": {func(h *store.ShardHealth) {
			h.AOF, h.Config = false, []map[string]string{{"save": "60 1"}}
		}, []Kind{NoAOF}, false},
		"the settings cannot be read": {func(h *store.ShardHealth) { h.ConfigErr = "no" }, []Kind{Unread}, false},
		"the worst comes first": {
			func(h *store.ShardHealth) { h.Memory, h.AOF, h.WriteError = 99, false, "x" },
			[]Kind{WriteError, Memory, NoAOF}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := good
			tt.change(&h)
			got := kinds(Judge(h))
			if !slices.Equal(got, tt.want) {
				t.Errorf("judged %v, want %v", got, tt.want)
			}
			watched := kinds(JudgeWatched(h))
			if tt.watched && !slices.Equal(watched, tt.want) {
				t.Errorf("watched %v, want %v", watched, tt.want)
			}
			for _, k := range watched {
				if !slices.Contains(Watched(), k) {
					t.Errorf("%s is found, but is not among the watched kinds %v", k, Watched())
				}
			}
			for _, p := range Judge(h) {
				if p.Detail.IsZero() || p.Advice.IsZero() {
					t.Errorf("%s lacks a detail or an advice: %+v", p.Kind, p)
				}
			}
		})
	}
}

func TestJudgeClock(t *testing.T) {
	for _, tt := range []struct {
		off, took time.Duration
		want      string
	}{
		{ClockOff, 0, ""}, {-ClockOff, 0, ""}, {ClockOff + time.Second, time.Second, ""},
		{ClockOff + time.Millisecond, 0, "ahead of"}, {-ClockOff - time.Millisecond, 0, "behind"},
	} {
		p := JudgeClock(tt.off, tt.took)
		if (p == nil) != (tt.want == "") || p != nil && !strings.Contains(p.Detail.Error(), tt.want) {
			t.Errorf("%s off with a ping of %s: %+v, want %q", tt.off, tt.took, p, tt.want)
		}
	}
}

type shard struct {
	health store.ShardHealth
	off    time.Duration
	err    error
}

func (s shard) Health(context.Context) store.ShardHealth { return s.health }

func (s shard) Ping(context.Context) (time.Time, time.Duration, error) {
	return time.Now().Add(s.off), 0, s.err
}

// ReadConfig answers with the names as values.
func (s shard) ReadConfig(_ context.Context, h *store.ShardHealth, names ...string) {
	config := map[string]string{}
	for _, name := range names {
		config[name] = name
	}
	h.Config = append(h.Config, config)
}

func TestTry(t *testing.T) {
	down := store.ShardHealth{Err: "connection refused"}
	if h, problems := Try(t.Context(), shard{health: down}); h.Up || len(problems) > 0 {
		t.Errorf("a shard that is down: %+v, %v", h, problems)
	}
	h, problems := Try(t.Context(), shard{health: good, err: errors.New("timed out")})
	if h.Up || h.Err != "timed out" || len(problems) > 0 {
		t.Errorf("a shard that goes down meanwhile: %+v, %v", h, problems)
	}
	volatile := good
	volatile.AOF = false
	h, problems = Try(t.Context(), shard{health: volatile, off: time.Minute})
	if !h.Up || !slices.Equal(kinds(problems), []Kind{NoAOF, Clock}) {
		t.Errorf("a shard with a wrong clock: %+v, %v", h, problems)
	}
}
