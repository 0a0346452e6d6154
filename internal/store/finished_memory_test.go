package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// A topic keeps its last jobs; when all topics together have too many, those of the longest inactive topics are
// removed.
func TestTheLastFinishedJobsAreBounded(t *testing.T) {
	f := newFixture(t)
	for _, topic := range []string{"a", "b", "c"} {
		f.conf(topic, store.KeepForTest(store.TopicConf{TTR: 10 * time.Second, MaxAttempts: 10, Remember: store.RememberLast}, 5, 8))
		for i := range 7 {
			f.push(topic, fmt.Sprint(i), 0)
		}
		f.deliver()
		f.nextMillisecond()
	}
	for topic, want := range map[string]int{"a": 0, "b": 3, "c": 5} {
		got := f.listFinished(topic, "", 10)
		if len(got) != want || want > 0 && got[0] != "6" {
			t.Errorf("%s remembers %v; want its last %d", topic, got, want)
		}
	}
	if n := f.s.Redis().Get(f.ctx, store.Prefix(0)+"fin").Val(); n != "8" {
		t.Errorf("the counter is %s; want 8", n)
	}
}

func TestAFullRedisRemembersNothing(t *testing.T) {
	f := newFixture(t)
	f.remember("last", store.RememberLast)
	f.remember("hour", time.Hour)
	f.push("last", "a", 0)
	f.push("hour", "a", 0)
	f.deliver()
	for i := range 500 {
		f.push("hour", fmt.Sprint("b", i), 0)
	}
	f.s.Redis().ConfigSet(f.ctx, "maxmemory", "1kb") // far below what Redis uses
	eventually(t, "finished jobs give way", func() bool {
		ls := f.reserve(1)
		if len(ls) == 0 {
			t.Fatal("every job was settled, and no finished job was removed")
		}
		f.settle(store.Done, nil, ls...)
		_, err := f.q.Get(f.ctx, "last", "a", store.Finished)
		return errors.Is(err, store.ErrNotFound) && len(f.listFinished("hour", "a", 10)) == 0
	})
	f.s.Redis().ConfigSet(f.ctx, "maxmemory", "0")
	f.deliver()
	f.balancedTopics("last", "hour")
}

func TestARememberedJobTakesAtMost400Bytes(t *testing.T) {
	f := newFixture(t)
	var before int64
	const topics, each = 20, store.LastFinished
	for i := range topics + 1 {
		if i == 1 { // Redis has loaded its scripts and allocated its buffers
			before = f.memory()
		}
		topic := fmt.Sprint("topic", i)
		f.remember(topic, store.RememberLast)
		pushes := make([]store.Push, each)
		for k := range pushes {
			pushes[k] = store.Push{Topic: topic, ID: fmt.Sprintf("order-%018d", k), Body: []byte(strings.Repeat("x", 64))}
		}
		for _, r := range f.q.PushBatch(f.ctx, pushes) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		f.finish()
	}
	per := (f.memory() - before) / (topics * each)
	if t.Logf("%d bytes per finished job", per); per > 400 || per < 100 {
		t.Errorf("%d bytes per finished job", per)
	}
}

// finish settles as deliver does, without an answer of the endpoint.
func (f *fixture) finish() {
	f.Helper()
	for ls := f.reserve(128); len(ls) > 0; ls = f.reserve(128) {
		f.settle(store.Done, func(s *store.End) { s.Attempt.Answer = "" }, ls...)
	}
}

func (f *fixture) memory() int64 {
	f.Helper()
	return store.Number(store.ParseInfo(f.s.Redis().Info(context.Background(), "memory").Val())["used_memory"])
}

// TestAFullRedisMakesRoomInSmallSteps: no settlement of many jobs forgets so many that it blocks Redis.
func TestAFullRedisMakesRoomInSmallSteps(t *testing.T) {
	f := newFixture(t)
	const topics, each = 20, 200
	for i := range topics {
		topic := fmt.Sprint("t", i)
		f.remember(topic, time.Hour)
		for k := range each {
			f.push(topic, fmt.Sprint(k), 0)
		}
	}
	f.finish()
	f.remember("busy", time.Hour)
	f.s.Redis().ConfigSet(f.ctx, "maxmemory", "1gb")
	remembered := func() (n int64) {
		for i := range topics {
			n += f.s.Redis().ZCard(f.ctx, store.Prefix(0)+"fin:t"+fmt.Sprint(i)).Val()
		}
		return n
	}
	before := remembered()
	eventually(t, "a settlement forgets some", func() bool {
		for k := range 20 {
			f.n++
			f.push("busy", fmt.Sprint(f.n, "/", k), 0)
		}
		ls := f.reserve(20)
		f.s.Redis().ConfigSet(f.ctx, "maxmemory", "1kb")
		f.settle(store.Done, nil, ls...)
		f.s.Redis().ConfigSet(f.ctx, "maxmemory", "0")
		return remembered() < before
	})
	if n := before - remembered(); n > 500 {
		t.Errorf("one settlement forgot %d jobs", n)
	}
}
