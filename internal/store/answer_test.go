package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

func awaited(p *store.Push) { p.Awaited = true }

// afterAnswer makes two minutes pass for the answers of a topic.
func (f *fixture) afterAnswer(topic string) {
	f.Helper()
	f.b.Shard().RewriteForTest(func(text string) string {
		return strings.Replace(text, "micros = time[1] * 1000000 + time[2]",
			"micros = time[1] * 1000000 + time[2] + 121000000", 1)
	})
	f.forgetAll()
}

// TestAnAwaitedJobKeepsItsResult for two minutes after its end, whatever its topic remembers.
func TestAnAwaitedJobKeepsItsResult(t *testing.T) {
	for name, remember := range map[string]time.Duration{"none": 0, "last": store.RememberLast, "duration": time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.remember("t", remember)
			f.push("t", "a", 0, awaited, func(p *store.Push) { p.Body = []byte(strings.Repeat("x", 500)) })
			if j := f.get("t", "a"); !j.Awaited {
				t.Fatalf("not awaited: %+v", j)
			}
			ended := f.b.EndedJobs(f.ctx)
			if w := <-ended; w.Kind != store.WakeReconnect {
				t.Fatalf("first %+v", w)
			}
			answer := store.EndpointAnswer(200, "text/plain", []byte("paid"), false)
			f.settle(store.Done, func(e *store.End) {
				e.Attempt.Status, e.Attempt.StartedAt, e.Answer = 200, time.Now().UnixMilli(), answer
			}, f.reserve(1)...)
			if w := <-ended; w.Kind != store.WakeEnded || w.About != "t/a" {
				t.Fatalf("told %+v", w)
			}
			for i := range store.LastFinished + 200 { // others push it out of nothing
				f.push("t", fmt.Sprint("other", i), 0)
			}
			f.deliver()
			j := f.recall("t", "a")
			const want = `{"result":{"status":200,"content_type":"text/plain","body":"paid"}}`
			if j.State != store.Finished || j.Answer.Encode() != want || !j.BodyGone ||
				time.Since(j.FinishedAt).Abs() > time.Minute {
				t.Fatalf("the job is %+v with %s", j, j.Answer.Encode())
			}
			if r := f.push("t", "a", 0); !r.Duplicate || r.Job.Answer.Encode() != want {
				t.Errorf("pushed again: %+v", r)
			}
			f.afterAnswer("t")
			if remember == 0 {
				f.forgotten("t", "a")
			} else if j := f.recall("t", "a"); j.Answer != nil {
				t.Errorf("after two minutes %s", j.Answer.Encode())
			}
			if r := f.push("t", "a", 0); r.Duplicate != (name == "duration") {
				t.Errorf("pushed again after two minutes: %+v", r)
			}
		})
	}
}

// TestEveryEndOfAnAwaitedJobIsTold.
func TestEveryEndOfAnAwaitedJobIsTold(t *testing.T) {
	byID := func(f *fixture, e store.End) {
		e.Ref = store.Ref{Topic: "t", ID: "a"}
		if d := f.q.End(f.ctx, []store.End{e})[0]; d.Err != nil {
			f.Fatal(d.Err)
		}
	}
	for name, c := range map[string]struct {
		push func(*store.Push)
		end  func(f *fixture)
	}{
		"bury":   {nil, func(f *fixture) { f.settle(store.Bury, nil, f.reserve(1)...) }},
		"delete": {nil, func(f *fixture) { _ = f.q.Delete(f.ctx, "t", "a", nil) }},
		"replace": {nil, func(f *fixture) {
			f.push("t", "a", 0, func(p *store.Push) { p.OnDuplicate = store.Replace })
		}},
		"by id": {nil, func(f *fixture) { byID(f, store.End{In: []store.State{store.Ready}, Verb: store.Done}) }},
		"acked by id": {nil, func(f *fixture) {
			f.reserve(1)
			byID(f, store.End{Verb: store.Done})
			if j := f.recall("t", "a"); j.State != store.Finished || j.KnownAnswer() != nil {
				f.Errorf("acked by its id: %+v", j)
			}
		}},
		"expiry": {func(p *store.Push) { p.TTL = time.Millisecond }, func(f *fixture) {
			eventually(f.T, "it expires", func() bool { f.reserve(1); return f.get("t", "a").State == store.Dead })
		}},
		"drop": {nil, func(f *fixture) { _, _ = f.q.DropTopic(f.ctx, "t") }},
		"group": {func(p *store.Push) { p.Group = "g" },
			func(f *fixture) { _, _ = f.q.CancelGroup(f.ctx, "g", []string{"*"}, 0) }},
		"duplicate that waits": {func(p *store.Push) { p.Awaited = false }, func(f *fixture) {
			before := f.get("t", "a").Revision
			if r := f.push("t", "a", 0, awaited); !r.Duplicate || !r.Job.Awaited || r.Job.Revision <= before {
				f.Errorf("duplicate: %+v", r)
			}
			f.deliver()
		}},
		"duplicate of a running one": {func(p *store.Push) { p.Awaited = false }, func(f *fixture) {
			jobs := f.reserve(1)
			if r := f.push("t", "a", 0, awaited); !r.Job.Awaited || r.Job.Revision != f.get("t", "a").Revision {
				f.Errorf("duplicate: %+v", r)
			}
			if held := f.settle(store.Done, func(e *store.End) { e.Attempt.Status = 204 }, jobs...); !held[0] {
				f.Error("its lease was lost")
			}
			got := f.recall("t", "a").KnownAnswer().Encode()
			if got != `{"result":{"status":204,"content_type":"","body":"no"}}` {
				f.Error("known:", got)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			told := f.b.EndedJobs(f.ctx)
			<-told
			f.push("t", "a", 0, awaited, func(p *store.Push) {
				if c.push != nil {
					c.push(p)
				}
			})
			c.end(f)
			if w := <-told; w.About != "t/a" {
				t.Fatalf("told %+v", w)
			}
		})
	}
}

// TestAJobThatNobodyWaitsForCostsNothing: no pair, no key, and no message.
func TestAJobThatNobodyWaitsForCostsNothing(t *testing.T) {
	f := newFixture(t)
	told := f.b.EndedJobs(f.ctx)
	<-told
	f.push("t", "a", 0)
	if record := f.s.Redis().HGet(f.ctx, f.b.Key("j:t"), "a").Val(); strings.Contains(record, "await") {
		t.Error(record)
	}
	f.settle(store.Done, func(e *store.End) { e.Answer = store.WorkerAnswer([]byte(`1`)) }, f.reserve(1)...)
	f.push("t", "b", 0, awaited)
	f.deliver()
	if w := <-told; w.About != "t/b" {
		t.Errorf("told %+v", w)
	}
	if keys := f.s.Redis().Keys(f.ctx, f.b.Key("r:*")).Val(); len(keys) != 0 {
		t.Error(keys)
	}
	if _, err := f.q.Get(f.ctx, "t", "a", store.Finished); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

func TestAnswersAreTextOrBase64(t *testing.T) {
	long := strings.Repeat("é", store.MaxResult/2)
	of := store.EndpointAnswer
	for want, a := range map[string]*store.Answer{
		`{"result":{"status":200,"content_type":"","body":""}}`:                    of(200, "", nil, false),
		`{"result":{"status":201,"content_type":"x","body":"é"},"truncated":true}`: of(201, "x", []byte("é\xc3"), true),
		`{"result":{"status":200,"content_type":"","body_base64":"/w=="}}`:         of(200, "", []byte("\xff"), false),
		`{"result":{"n":[1]}}`: store.WorkerAnswer([]byte(`{"n":[1]}`)),
		`{"result":"` + "x" + long[:store.MaxResult-2] + `","truncated":true}`: store.WorkerAnswer([]byte("x" + long)),
		``: nil,
	} {
		if got := a.Encode(); got != want {
			t.Errorf("%.100s, want %.100s (%d, %d bytes)", got, want, len(got), len(want))
		}
		if a != nil && store.DecodeAnswer(want).Encode() != want {
			t.Errorf("%.100s decodes to another", want)
		}
	}
}
