package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// Ledger records the results of pushes, for the verdict at the end of a test.
type Ledger struct {
	mu           sync.Mutex
	attempted    map[Key]bool
	acknowledged map[Key]time.Time // the due time in the answer
	refused      map[Key]int       // the status of an answer that means: not stored (4xx, 503)
	unknown      map[Key]string    // no answer, or an ambiguous one
	deleted      map[Key]bool      // answered with 204
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		attempted: map[Key]bool{}, acknowledged: map[Key]time.Time{}, refused: map[Key]int{},
		unknown: map[Key]string{}, deleted: map[Key]bool{},
	}
}

// Push pushes one job under an id, records the result, and returns the answer.
func (l *Ledger) Push(ctx context.Context, api *API, topic, id string, fields M) Answer {
	key := Key{topic, id}
	l.mu.Lock()
	l.attempted[key] = true
	l.mu.Unlock()

	body := maps.Clone(fields)
	if body == nil {
		body = M{}
	}
	body["id"] = id
	if body["body"] == nil {
		body["body"] = M{"job": key.String()}
	}
	answer := api.Push(ctx, topic, body)
	l.book(key, answer)
	return answer
}

func (l *Ledger) book(key Key, answer Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var j Job
	switch {
	case answer.Err != nil:
		l.unknown[key] = answer.Err.Error()
	case answer.Status == http.StatusCreated || answer.Status == http.StatusOK:
		if err := answer.JSON(&j); err != nil {
			l.unknown[key] = err.Error()
			return
		}
		l.acknowledged[key] = j.DueAt
		delete(l.unknown, key)
	case answer.Status >= 400 && answer.Status < 500:
		l.refused[key] = answer.Status
	default: // a 5xx does not say whether the job was stored
		l.unknown[key] = answer.String()
	}
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

// Delete deletes a job and records that when the answer is 204.
func (l *Ledger) Delete(ctx context.Context, api *API, topic, id string) Answer {
	answer := api.Do(ctx, http.MethodDelete, JobPath(topic, id), nil)
	if answer.Err == nil && answer.Status == http.StatusNoContent {
		l.mu.Lock()
		l.deleted[Key{topic, id}] = true
		l.mu.Unlock()
	}
	return answer
}

// Acknowledged returns how many pushes have been acknowledged so far.
func (l *Ledger) Acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

// AllCalled returns nil when every job that was acknowledged has been called.
func (l *Ledger) AllCalled(e *Endpoint) error {
	called := map[Key]bool{}
	for _, c := range e.Calls("") {
		called[c.Key] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.acknowledged {
		if !called[key] {
			return fmt.Errorf("%s was not called", key)
		}
	}
	return nil
}

// Unknown returns how many pushes got no answer or an ambiguous one.
func (l *Ledger) Unknown() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.unknown)
}

func (l *Ledger) topics() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]bool{}
	for k := range l.attempted {
		seen[k.Topic] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// Tally holds the counts of a verdict.
type Tally struct {
	Attempted, Acknowledged, Refused, Unknown, Called, Dead, Deleted int
	Duplicates                                                       int // see again
}

// drainLimit limits the wait for a queue to drain: leases must expire and retries must become due first.
const drainLimit = 2 * Patience

// Verdict waits until the installation has nothing left to do and judges it by the ledger's laws:
//
//   - acknowledged, less called, dead and deleted, is empty;
//   - called, less attempted, is empty, and nothing that was refused was called;
//   - nothing was called before its due time;
//   - no more than duplicates calls were made again, which a fault explains (those in flight when it struck);
//   - the queue drained, and a new job goes through.
func (l *Ledger) Verdict(t testing.TB, api *API, e *Endpoint, duplicates int) Tally {
	t.Helper()
	Eventually(t, drainLimit, "the queue to drain", func() error { return l.drained(api) })
	tally, faults := l.judge(api, e)
	t.Logf("ledger: %+v", tally)
	if tally.Duplicates > duplicates {
		faults = append(faults, fmt.Sprintf("%d calls were repeated; at most %d may be", tally.Duplicates, duplicates))
	}
	for i, f := range faults {
		if i == 10 {
			t.Errorf("… and %d more", len(faults)-i)
			break
		}
		t.Error(f)
	}
	for _, topic := range l.topics() {
		probe := fmt.Sprintf("probe-%d", time.Now().UnixNano())
		api.MustPush(t, topic, M{"id": probe, "body": "probe"})
		Eventually(t, Patience, "a new job of "+topic+" to be called", func() error {
			return Equal("called", len(e.CallsOf(topic, probe)) > 0, true)
		})
	}
	return tally
}

// drained returns nil when no job is delayed, ready or running.
func (l *Ledger) drained(api *API) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	var errs []error
	for _, topic := range l.topics() {
		s, err := api.Stats(ctx, topic)
		if err == nil && s.Delayed+s.Ready+s.Running > 0 {
			err = fmt.Errorf("%s has %+v", topic, s)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (l *Ledger) judge(api *API, e *Endpoint) (Tally, []string) {
	dead, faults := l.dead(api)
	topics := l.topics()
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := map[Key][]Call{}
	for _, topic := range topics { // others may share the endpoint
		for _, c := range e.Calls(topic) {
			calls[c.Key] = append(calls[c.Key], c)
		}
	}
	for key := range l.acknowledged {
		if len(calls[key]) == 0 && !dead[key] && !l.deleted[key] {
			faults = append(faults, fmt.Sprintf("LOST: %s was accepted, but neither called nor dead nor deleted", key))
		}
	}
	tally := Tally{
		Attempted: len(l.attempted), Acknowledged: len(l.acknowledged), Refused: len(l.refused),
		Unknown: len(l.unknown), Called: len(calls), Dead: len(dead), Deleted: len(l.deleted),
	}
	for key, cs := range calls {
		if !l.attempted[key] {
			faults = append(faults, fmt.Sprintf("INVENTED: %s was called, but never pushed", key))
		}
		if status := l.refused[key]; status != 0 && l.acknowledged[key].IsZero() {
			faults = append(faults, fmt.Sprintf("%s was called, although its push was answered %d", key, status))
		}
		faults = append(faults, l.early(key, cs)...)
		tally.Duplicates += again(cs)
	}
	return tally, faults
}

// again returns how many calls of a job a fault must explain: all after the first that were not answered with a
// failure.
func again(calls []Call) int {
	good := 0
	for _, c := range calls {
		if c.Status < 300 {
			good++
		}
	}
	return max(0, good-1)
}

func (l *Ledger) early(key Key, calls []Call) []string {
	due := l.acknowledged[key]
	for _, c := range calls {
		for _, d := range []time.Time{due, c.DueAt} {
			if !d.IsZero() && c.At.UnixMilli() < d.UnixMilli() {
				return []string{fmt.Sprintf("EARLY: %s was due at %s and called at %s", key, d, c.At)}
			}
		}
	}
	return nil
}

func (l *Ledger) dead(api *API) (map[Key]bool, []string) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	dead := map[Key]bool{}
	var faults []string
	for _, topic := range l.topics() {
		jobs, err := api.List(ctx, topic, "dead")
		if err != nil {
			faults = append(faults, err.Error())
		}
		for _, j := range jobs {
			dead[Key{topic, j.ID}] = true
		}
	}
	return dead, faults
}

// WaitAcknowledged waits until at least n more pushes than now have been acknowledged.
func (l *Ledger) WaitAcknowledged(t testing.TB, n int) {
	t.Helper()
	want := l.Acknowledged() + n
	Eventually(t, Patience, fmt.Sprintf("%d more pushes to be acknowledged", n), func() error {
		if got := l.Acknowledged(); got < want {
			return fmt.Errorf("%d were acknowledged, of %d", got, want)
		}
		return nil
	})
}
