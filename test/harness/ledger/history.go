package ledger

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Histories is the result of CheckHistories.
type Histories struct {
	Checked   int
	Undecided []string // jobs whose search took too long
	Wrong     []string
}

// Report fails the test for what is wrong, and logs how much was checked.
func (h Histories) Report(t testing.TB) {
	t.Helper()
	t.Logf("histories: %d jobs checked by Porcupine, %d wrong, %d undecided %.200q", h.Checked, len(h.Wrong),
		len(h.Undecided), h.Undecided)
	for n, wrong := range h.Wrong {
		if n == 20 {
			t.Errorf("… and %d more", len(h.Wrong)-n)
			return
		}
		t.Error(wrong)
	}
}

const (
	searchLimit   = 2 * time.Second // of one job
	settledWithin = 1000            // milliseconds after a good answer, without a fault
	ever          = math.MaxInt64   // a request without an answer may have taken effect at any later time
)

// CheckHistories asks Porcupine, a checker of linearizability, whether the history of each job has an explanation: an
// order of its requests, calls and leases in which each took effect between its beginning and its end, and which the
// job in step could have gone through. A request with an unknown result may take effect at any later time; at the end
// of the history means never. A spooled push takes effect before the queues have drained. The search stops after a time;
// memory is bounded by the longest history of one job.
func CheckHistories(events []Event, limit time.Duration) (h Histories) {
	stories, faults := collect(events)
	end := 0.0
	for _, e := range events {
		end = max(end, e.At, e.End)
	}
	began := time.Now()
	for key, s := range stories {
		left := min(searchLimit, limit-time.Since(began))
		if left <= 0 {
			h.Undecided = append(h.Undecided, key)
			continue
		}
		ops := s.operations(faults, end+1)
		model := porcupine.Model{
			Init: func() any { return job{} },
			Step: func(j, op, _ any) (bool, any) {
				next, ok := j.(job).step(op.(operation), s, faults)
				return ok, next
			},
		}
		h.Checked++
		switch porcupine.CheckOperationsTimeout(model, ops, left) {
		case porcupine.Illegal:
			h.Wrong = append(h.Wrong, describe(key, ops))
		case porcupine.Unknown:
			h.Undecided = append(h.Undecided, key)
		}
	}
	slices.Sort(h.Wrong)
	return h
}

// Further kinds of operations.
const (
	done  = "done"  // a call was answered well, or a worker's ack was
	final = "final" // all faults are over and the queues have drained
)

// operation is one event of a job's history.
type operation struct {
	Event
	call   int  // index of a call
	repeat bool // a fault explains that the job is called although it was delivered
	dead   bool // of final: the job is dead and visible
}

// operations returns the history of a job.
func (s *story) operations(faults []Event, end float64) (ops []porcupine.Operation) {
	add := func(o operation, from, to float64) {
		p := porcupine.Operation{Input: o, Call: int64(from * 1000), Return: ever}
		if to < ever {
			p.Return = int64(to * 1000)
		}
		ops = append(ops, p)
	}
	requests := slices.Concat(s.requests, s.deletes)
	slices.SortStableFunc(requests, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	for n, r := range requests {
		switch {
		case r.Result == Refused:
		case r.Kind == Delete && r.Result == Unknown && n > 0 && requests[n-1].Kind == Delete: // explains no more
		case r.Result == Unknown:
			add(operation{Event: r}, r.At, ever)
		case r.isSpooled():
			add(operation{Event: r}, r.At, end-0.5)
		default:
			add(operation{Event: r}, r.At, r.End)
		}
	}
	for n, c := range s.calls {
		add(operation{Event: c, call: n, repeat: s.mayRepeat(n, faults)}, c.At-slack, c.At)
		c.Kind = done
		switch {
		case c.Result == Good && c.Shard != "":
			add(operation{Event: c}, c.At, c.End)
		case c.Result == Good && during(faults, c.At, c.End+settledWithin) == "":
			add(operation{Event: c}, c.End, c.End+settledWithin)
		case c.Result == Good || c.Result == Maybe:
			add(operation{Event: c}, c.At, ever)
		}
	}
	add(operation{Event: Event{Kind: final, At: end}, dead: s.dead != ""}, end, end)
	return ops
}

// mayRepeat reports whether a fault explains that the job is called once more after it was delivered.
func (s *story) mayRepeat(n int, faults []Event) bool {
	c := s.calls[n]
	first := slices.IndexFunc(s.calls[:n], func(c Event) bool { return c.Result == Good || c.Result == Maybe })
	switch {
	case first < 0:
		return false
	case c.Shard != "" && s.calls[first].Result == Good: // an answered ack is not lost when a process is killed
		return forgotten(s.calls[first], c, faults) || s.pushedTwice(s.calls[first], faults)
	}
	return len(s.requests) > 0 && during(faults, s.requests[0].At, c.At) != ""
}

// job is the state of a job.
type job struct {
	exists, delivered bool
	accepted          bool // somebody was told that it exists, so it must not vanish
	body              string
	due               float64
	etag              string  // empty: not known
	old               string  // body before the last replace
	oldUntil          float64 // until when a call may still start with it
	holder            int     // 1 + index of the call whose worker holds it; 0: none
}

// step returns the job after an operation, and whether that can follow.
func (j job) step(o operation, s *story, faults []Event) (next job, ok bool) {
	switch o.Kind {
	case Push:
		return j.pushed(o.Event), true
	case Change, Run, Redrive:
		return j.changed(o.Event)
	case Delete:
		return job{}, true
	case Call:
		return j.called(o, s, faults)
	case done:
		if j.body == o.Body || o.Body == "" { // the settlement of a call with an old body has no effect
			j.delivered, j.holder = true, 0
		}
		return j, true
	}
	return j, o.dead && j.exists || !o.dead && (!j.accepted || j.delivered)
}

func (j job) pushed(r Event) job {
	next := job{exists: true, accepted: j.accepted || r.Result == Acknowledged, body: r.Body, due: r.At + r.DelayMS}
	if j.exists {
		next.old, next.oldUntil = j.body, r.End+settled(r)
		if r.Result == Unknown {
			next.oldUntil = math.Inf(1)
		}
	}
	return next
}

func (j job) changed(r Event) (next job, ok bool) {
	if r.Result == Acknowledged && (!j.exists || r.Match != "" && j.etag != "" && j.etag != r.Match) {
		return j, false
	}
	if r.SetsDue {
		j.due = r.At + r.DelayMS
	}
	if r.Body != "" {
		j.body = r.Body
	}
	j.accepted = j.accepted || r.Result == Acknowledged
	j.etag, j.holder = r.ETag, 0
	return j, true
}

// called is a callback that arrives, or a lease that begins.
func (j job) called(o operation, s *story, faults []Event) (next job, ok bool) {
	isOld := o.Body != "" && o.Body == j.old && o.At <= j.oldUntil
	switch {
	case !j.exists, j.delivered && !o.repeat:
		return j, false
	case !isOld && (o.Body != "" && o.Body != j.body || o.At < j.due):
		return j, false
	case o.Shard == "":
		return j, true
	}
	if j.holder > 0 {
		before := s.calls[j.holder-1]
		if o.At < before.Held-1 && !forgotten(before, o.Event, faults) && !s.pushedTwice(before, faults) {
			return j, false
		}
	}
	j.holder = o.call + 1
	return j, true
}

// describe lists the history of a job.
func describe(key string, ops []porcupine.Operation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HISTORY: nothing explains what happened to %s:", key)
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, p := range ops {
		o := p.Input.(operation)
		fmt.Fprintf(&b, "\n  %.3f–%.3f %s %s %s %s", o.At, o.End, o.Kind, o.Result, o.Body, o.Shard)
	}
	return b.String()
}
