package chaos

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/ledger"
)

// workerCount is how many workers take jobs of the pull topics at once.
const workerCount = 16

// workers take the jobs of the pull topics, through both hosts, and record their leases and how they end them.
type workers struct {
	*harness.Load
	calm  atomic.Bool // jobs are done at once
	calls atomic.Int64
}

func (s *site) startWorkers(seed uint64) *workers {
	all := &workers{}
	all.Load = harness.StartClients(s.t, workerCount, 0, func(n int) harness.Client {
		w := &worker{recorder: s.recorder(seed, n+1000), all: all}
		return func(ctx context.Context) error { w.work(ctx); return nil }
	})
	return all
}

type worker struct {
	recorder
	all *workers
}

// held is a job that a worker has leased.
type held struct {
	client.LeasedJob
	call int
}

// work leases some jobs and ends their leases. Sometimes the worker disconnects before it has an answer.
func (w *worker) work(ctx context.Context) {
	ttr := time.Duration(1000+w.r.IntN(1500)) * time.Millisecond
	wait := time.Duration(w.r.IntN(3000)) * time.Millisecond
	limit := wait + patience
	if w.r.IntN(15) == 0 {
		limit = time.Duration(w.r.Int64N(int64(wait + time.Second)))
	}
	names := named(true)
	w.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	host := w.r.IntN(len(w.apis))
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := w.apis[host].Do(asking, http.MethodPost, "/v1/reserve", M{
		"topics": names, "max": 1 + w.r.IntN(4), "wait": wait.String(), "ttr": ttr.String(),
		"order": []string{"fair", "listed"}[w.r.IntN(2)],
	})
	var got struct{ Jobs []*held }
	if answer.Status != http.StatusOK || answer.JSON(&got) != nil {
		pause(ctx, 20*time.Millisecond)
		return
	}
	now := ledger.Now()
	for _, j := range got.Jobs {
		j.call = -int(w.all.calls.Add(1)) // numbers above 0 are the endpoint's
		w.site.rec.Add(ledger.Event{      // taken when its lease began; Redis counts whole milliseconds
			Kind: ledger.Call, At: min(ledger.MS(j.LeasedUntil.Add(-ttr))+1, now), Topic: j.Topic, ID: j.ID, Host: host + 1,
			Call: j.call, Attempt: j.Attempt, DueAt: float64(j.DueAt.UnixMilli()), Body: ledger.Digest(j.Body),
			Shard: shardOf(j.Lease),
		})
	}
	if len(got.Jobs) > 1 && w.r.IntN(2) == 0 {
		w.ackAll(got.Jobs)
		return
	}
	for _, j := range got.Jobs {
		w.handle(ctx, j)
	}
}

// shardOf returns the name of the shard in a lease.
func shardOf(lease string) string {
	b, _ := base64.RawURLEncoding.DecodeString(lease)
	for _, name := range []string{"redis-1", "redis-2"} {
		if strings.Contains(string(b[:min(len(b), 12)]), name) {
			return name
		}
	}
	return "unknown"
}

// handle handles one job in one of the ways in which workers end leases.
func (w *worker) handle(ctx context.Context, j *held) {
	dice := w.r.Float64()
	switch {
	case w.all.calm.Load() || strings.HasPrefix(j.ID, probePrefix):
		dice = 1
	case j.Topic == "doomed" && isIll(j.ID):
		dice = 0.10 + 0.08*w.r.Float64()
	default:
		pause(ctx, time.Duration(w.r.IntN(60))*time.Millisecond)
	}
	switch {
	case dice < 0.05: // the lease is lost
		w.ended(j, ledger.Bad, ledger.MS(j.LeasedUntil))
	case dice < 0.07: // mostly too late
		pause(ctx, time.Until(j.LeasedUntil)+100*time.Millisecond)
		w.end(j, "ack", nil, 0)
	case dice < 0.10:
		w.extend(ctx, j)
	case dice < 0.15:
		w.end(j, "fail", M{"reason": "chaos"}, failWait)
	case dice < 0.18:
		w.end(j, "bury", M{"reason": "chaos"}, 0)
	case dice < 0.28:
		delay := time.Duration(w.r.IntN(1000)) * time.Millisecond
		w.end(j, "release", M{"delay": delay.String()}, delay)
	default:
		w.end(j, "ack", nil, 0)
	}
}

// extend makes a lease end in 1.5 s, which may be earlier than before, and acks the job shortly before that.
func (w *worker) extend(ctx context.Context, j *held) {
	const ttr = 1500 * time.Millisecond
	until := time.Now().Add(ttr)
	e, answer := w.post("/v1/leases/"+j.Lease+"/extend", M{"ttr": ttr.String()})
	switch {
	case e.Status == http.StatusOK:
		_ = answer.JSON(j) // has its leased_until
	case e.Result == ledger.Unknown && until.Before(j.LeasedUntil):
		j.LeasedUntil = until
	}
	pause(ctx, time.Until(j.LeasedUntil)-200*time.Millisecond)
	w.end(j, "ack", nil, 0)
}

// post makes a request through any host.
func (w *worker) post(path string, body any) (ledger.Event, harness.Answer) {
	e := ledger.Event{}
	answer := w.do(&e, http.MethodPost, path, body)
	return e, answer
}

// end ends a lease with a verb. Until then, and for the delay that an acknowledged verb requests, no other worker may
// lease the job.
func (w *worker) end(j *held, verb string, body any, wait time.Duration) {
	e, _ := w.post("/v1/leases/"+j.Lease+"/"+verb, body)
	until := min(ledger.MS(j.LeasedUntil), e.At)
	if e.Status == http.StatusNoContent {
		until += float64(wait.Milliseconds())
	}
	w.ended(j, outcome(verb, e.Result), until)
}

// outcome returns the effect of the end of a lease on its job.
func outcome(verb, result string) string {
	switch {
	case verb != "ack" || result == ledger.Refused:
		return ledger.Bad
	case result == ledger.Unknown:
		return ledger.Maybe
	}
	return ledger.Good
}

// ackAll acks several jobs with one request.
func (w *worker) ackAll(jobs []*held) {
	var leases []string
	for _, j := range jobs {
		leases = append(leases, j.Lease)
	}
	e, answer := w.post("/v1/leases", M{"ack": leases})
	results := resultsOf(answer, len(jobs))
	for n, j := range jobs {
		result := e.Result
		if results != nil && results[n].Error != nil {
			result = ledger.ResultOf(results[n].Error.Status, nil)
		}
		w.ended(j, outcome("ack", result), min(e.At, ledger.MS(j.LeasedUntil)))
	}
}

func (w *worker) ended(j *held, result string, until float64) {
	w.site.rec.Add(ledger.Event{
		Kind: ledger.Answer, At: ledger.Now(), Topic: j.Topic, ID: j.ID, Call: j.call, Result: result, Held: until,
	})
	if result == ledger.Good {
		w.site.noteProbe(j.ID)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
