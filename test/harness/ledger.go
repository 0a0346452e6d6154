package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/wakecall/wakecall/test/harness/ledger"
)

// Ledger records the results of requests, for the verdict at the end of a test.
type Ledger struct{ ledger.Ledger }

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{} }

// Push pushes one job under an id, records the result, and returns the answer.
func (l *Ledger) Push(ctx context.Context, api *API, topic, id string, fields M) Answer {
	body := M{"id": id, "body": M{"job": Key{topic, id}.String()}}
	maps.Copy(body, fields)
	e := ledger.Event{Kind: ledger.Push, At: ledger.Now(), Topic: topic, ID: id, Body: ledger.DigestJSON(body["body"])}
	answer := api.Push(ctx, topic, body)
	var j Job
	err := answer.JSON(&j)
	e.End, e.Status, e.Result = ledger.Now(), answer.Status, ledger.ResultOf(answer.Status, err)
	if e.Result == ledger.Acknowledged && answer.Status != http.StatusAccepted {
		if j.Duplicate { // an earlier push created it, whose answer was lost
			e.At = ledger.MS(j.CreatedAt)
		}
		e.SetsDue, e.DelayMS = true, ledger.MS(j.DueAt)-e.At
	}
	l.Add(e)
	return answer
}

// MustPush is Push of a job that must be acknowledged.
func (l *Ledger) MustPush(t testing.TB, api *API, topic, id string, fields M) Job {
	t.Helper()
	answer := l.Push(context.Background(), api, topic, id, fields)
	var j Job
	if err := answer.JSON(&j); err != nil || answer.Status >= 300 {
		t.Fatalf("push of %s/%s: %s", topic, id, answer)
	}
	return j
}

// Delete deletes a job and records the result.
func (l *Ledger) Delete(ctx context.Context, api *API, topic, id string) Answer {
	e := ledger.Event{Kind: ledger.Delete, At: ledger.Now(), Topic: topic, ID: id}
	answer := api.Do(ctx, http.MethodDelete, JobPath(topic, id), nil)
	e.End, e.Result = ledger.Now(), ledger.ResultOf(answer.Status, answer.Err)
	l.Add(e)
	return answer
}

// RecordDead records which jobs of a topic are dead and visible. Those of an immortal topic always have attempts left.
func (l *Ledger) RecordDead(ctx context.Context, api *API, topic string, immortal bool) error {
	jobs, err := api.List(ctx, topic, "dead")
	for _, j := range jobs {
		var whole Job
		if err := api.Do(ctx, http.MethodGet, JobPath(topic, j.ID), nil).JSON(&whole); err != nil {
			return err
		}
		e := ledger.Event{
			Kind: ledger.Dead, At: ledger.Now(), Topic: topic, ID: j.ID, Error: j.DeadReason, Immortal: immortal,
		}
		if last := len(whole.History) - 1; last >= 0 {
			e.Status = whole.History[last].Status
		}
		l.Add(e)
	}
	return err
}

// Acknowledged returns how many pushes have been acknowledged so far.
func (l *Ledger) Acknowledged() int { return len(l.pushes(ledger.Acknowledged)) }

// Unknown returns how many pushes got no answer or an ambiguous one.
func (l *Ledger) Unknown() int { return len(l.pushes(ledger.Unknown)) }

// pushes returns the pushes with one of the results, or all.
func (l *Ledger) pushes(results ...string) []ledger.Event {
	return slices.DeleteFunc(l.Events(), func(e ledger.Event) bool {
		return e.Kind != ledger.Push || len(results) > 0 && !slices.Contains(results, e.Result)
	})
}

// AllCalled returns nil when every job that was acknowledged has been called.
func (l *Ledger) AllCalled(e *Endpoint) error {
	called := map[Key]bool{}
	for _, c := range e.Calls("") {
		called[c.Key] = true
	}
	for _, p := range l.pushes(ledger.Acknowledged) {
		if !called[Key{p.Topic, p.ID}] {
			return fmt.Errorf("%s was not called", p.Key())
		}
	}
	return nil
}

func (l *Ledger) topics() []string {
	seen := map[string]bool{}
	for _, p := range l.pushes() {
		seen[p.Topic] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// drainLimit limits the wait for a queue to drain: leases must expire and retries must become due first.
const drainLimit = 2 * Patience

// Verdict waits until the installation has nothing left to do and judges it by the laws of ledger.Judge. No more than
// duplicates deliveries may be repeated, which a fault explains (those in flight when it struck). Then it checks that a
// new job of each topic is called.
func (l *Ledger) Verdict(t testing.TB, api *API, e *Endpoint, duplicates int) {
	t.Helper()
	topics := l.topics()
	Eventually(t, drainLimit, "the queue to drain", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		return api.Drained(ctx, topics...)
	})
	verdict, err := l.judge(api, e, duplicates)
	t.Logf("ledger: %s", verdict)
	if err != nil {
		t.Error(err)
	}
	verdict.Report(t)
	for _, topic := range topics {
		probe := newID()
		api.MustPush(t, topic, M{"id": probe, "body": "probe"})
		Eventually(t, Patience, "a new job of "+topic+" to be called", func() error {
			return Equal("called", len(e.CallsOf(topic, probe)) > 0, true)
		})
	}
}

// judge returns the verdict on the requests, the calls at an endpoint, and the jobs that are dead.
func (l *Ledger) judge(api *API, e *Endpoint, duplicates int) (ledger.Verdict, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	whole, errs := NewLedger(), []error(nil)
	whole.Add(l.Events()...)
	for _, topic := range l.topics() { // others may share the endpoint
		errs = append(errs, whole.RecordDead(ctx, api, topic, false))
		for _, c := range e.Calls(topic) {
			whole.Add(c.Arrival(), c.Answer())
		}
	}
	if duplicates > 0 { // a fault of the test may explain them
		whole.Add(ledger.Event{Kind: ledger.Fault, Fault: "fault of the test", Calm: ledger.Now()})
	}
	verdict := ledger.Judge(whole.Events())
	if verdict.Repeated > duplicates {
		errs = append(errs, fmt.Errorf("%d deliveries were repeated; at most %d may be", verdict.Repeated, duplicates))
	}
	return verdict, errors.Join(errs...)
}

// WaitAcknowledged waits until at least n more pushes than now have been acknowledged.
func (l *Ledger) WaitAcknowledged(t testing.TB, n int) {
	t.Helper()
	waitMore(t, n, "pushes to be acknowledged", l.Acknowledged)
}
