package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/store"
)

// slack is how long, in milliseconds, a call may take from a dispatcher to the endpoint's clock on a busy machine: a
// call that began before its job was deleted may arrive this much later.
const slack = 25

// Verdict is the result of judging a record.
type Verdict struct {
	Pushed, Acknowledged, Refused, Unknown int
	Changed, Deleted                       int
	Calls, Taken, Delivered, Dead          int
	Repeated                               int // deliveries of a job after its first
	Wrong                                  []string
}

// String returns the counts.
func (v Verdict) String() string {
	return fmt.Sprintf("jobs: %d pushed, %d acknowledged, %d refused, %d unknown; %d changed, %d deleted\n"+
		"calls: %d made, %d jobs taken by workers; %d delivered, %d dead, %d deliveries repeated", v.Pushed,
		v.Acknowledged, v.Refused, v.Unknown, v.Changed, v.Deleted, v.Calls, v.Taken, v.Delivered, v.Dead, v.Repeated)
}

// Report fails the test for what is wrong.
func (v Verdict) Report(t testing.TB) {
	t.Helper()
	for n, wrong := range v.Wrong {
		if n == 20 {
			t.Errorf("… and %d more", len(v.Wrong)-n)
			return
		}
		t.Error(wrong)
	}
}

// story is everything known about a job.
type story struct {
	requests []Event // pushes, changes, runs, in the order they were sent
	deletes  []Event
	calls    []Event // with Result and End of their answers
	dead     string  // why it is dead at the end; empty if it is not

	deathStatus int  // of the last call's answer, if that made it dead
	immortal    bool // it is dead, and has attempts left
}

// Judge computes the verdict. A push that was spooled (answered 202) is made some time later. The laws:
//
//   - a job whose push was acknowledged was answered with 200 by the endpoint, or is dead and visible, or a delete of
//     it was answered with 204;
//   - a job that was called had been pushed, and its push had not been refused; it came with a body that somebody gave
//     it;
//   - no call came before the due time that was acknowledged last, nor before the one in its own header;
//   - no call came after a delete was answered;
//   - a job that was delivered twice was in flight at a fault;
//   - no worker got a job while another one held it, unless Redis lost what it had accepted, or the job was in two
//     shards;
//   - a job that is dead was called since it was pushed or re-driven last, and had no attempts left.
func Judge(events []Event) Verdict {
	var v Verdict
	stories, faults := collect(events)
	for key, s := range stories {
		v.count(s)
		v.Wrong = append(v.Wrong, s.wrong(key, faults)...)
	}
	slices.Sort(v.Wrong)
	return v
}

func collect(events []Event) (map[string]*story, []Event) {
	stories := map[string]*story{}
	answers := map[int]Event{}
	var faults []Event
	for _, e := range events {
		if e.Kind == Fault {
			faults = append(faults, e)
			continue
		}
		if e.Kind == Answer {
			answers[e.Call] = e
			continue
		}
		s := stories[e.Key()]
		if s == nil {
			s = &story{}
			stories[e.Key()] = s
		}
		switch e.Kind {
		case Call:
			s.calls = append(s.calls, e)
		case Delete:
			s.deletes = append(s.deletes, e)
		case Dead:
			s.dead, s.deathStatus, s.immortal = cmp.Or(e.Error, "dead"), e.Status, e.Immortal
		default:
			s.requests = append(s.requests, e)
		}
	}
	for _, s := range stories {
		slices.SortFunc(s.requests, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
		for n := range s.calls {
			answer := answers[s.calls[n].Call]
			s.calls[n].Result, s.calls[n].End, s.calls[n].Held = answer.Result, answer.At, answer.Held
		}
		slices.SortFunc(s.calls, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	}
	return stories, faults
}

func (v *Verdict) count(s *story) {
	for _, r := range s.requests {
		switch {
		case r.Kind == Push:
			v.Pushed++
			v.Acknowledged += one(r.Result == Acknowledged)
			v.Refused += one(r.Result == Refused)
			v.Unknown += one(r.Result == Unknown)
		case r.Result == Acknowledged:
			v.Changed++
		}
	}
	v.Deleted += one(s.deleted(0, Acknowledged))
	for _, c := range s.calls {
		v.Calls += one(c.Shard == "")
		v.Taken += one(c.Shard != "")
	}
	v.Delivered += one(s.delivered(0))
	v.Dead += one(s.dead != "")
	v.Repeated += s.repeats()
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// pushedBetween reports whether a push may have created the job again in that time.
func (s *story) pushedBetween(from, to float64) bool {
	return slices.ContainsFunc(s.requests, func(r Event) bool {
		return r.Kind == Push && r.Result != Refused && (r.At > from || r.isSpooled()) && r.At <= to
	})
}

// delivered reports whether the job was delivered by a call that arrived after a given time.
func (s *story) delivered(since float64) bool {
	return slices.ContainsFunc(s.calls, func(c Event) bool {
		return c.At >= since && (c.Result == Good || c.Result == Maybe)
	})
}

// deleted reports whether a delete after a given time had one of these results.
func (s *story) deleted(since float64, results ...string) bool {
	return slices.ContainsFunc(s.deletes, func(d Event) bool {
		return d.At >= since && slices.Contains(results, d.Result)
	})
}

// deadUncalled reports whether the job is dead by an answer of the endpoint, although it was not called since it was
// pushed or re-driven last.
func (s *story) deadUncalled() bool {
	pushed, _ := s.last(Push)
	redriven, _ := s.last(Redrive)
	since := max(pushed, redriven)
	return s.deathStatus != 0 && !slices.ContainsFunc(s.calls, func(c Event) bool { return c.At >= since })
}

// last returns the time of the last acknowledged request of a kind.
func (s *story) last(kind string) (at float64, ok bool) {
	for _, r := range s.requests {
		if r.Kind == kind && r.Result == Acknowledged {
			at, ok = r.At, true
		}
	}
	return at, ok
}

func (s *story) pushed(results ...string) bool {
	return slices.ContainsFunc(s.requests, func(r Event) bool {
		return r.Kind == Push && slices.Contains(results, r.Result)
	})
}

func (s *story) wrong(key string, faults []Event) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	since, accepted := s.last(Push) // the first push, or one that replaced it
	if accepted && !s.delivered(since) && s.dead == "" && !s.deleted(since, Acknowledged, Unknown) {
		say("LOST: %s was acknowledged, but neither delivered nor dead nor deleted (%d calls)", key, len(s.calls))
	}
	if accepted && s.dead != "" && s.deleted(since, Acknowledged) {
		say("DELETED AND DEAD: %s is dead, though its deletion was answered", key)
	}
	if s.repeats() > 0 && !s.repeatExplained(faults) {
		say("TWICE: %s was delivered again, and no fault explains it", key)
	}
	if s.deadUncalled() {
		say("WRONGLY DEAD: %s is dead without a call since it was pushed or re-driven", key)
	}
	if s.immortal {
		say("WRONGLY DEAD: %s is dead (%s), and has attempts left", key, s.dead)
	}
	if len(s.calls) > 0 && !s.pushed(Acknowledged, Unknown) {
		say("INVENTED: %s was called, but its push was refused, or never made", key)
		return wrong
	}
	for n, c := range s.calls {
		if earlier, ok := s.heldBy(n, faults); ok {
			say("HELD: %s was given to a worker %.1f ms before the lease of call %d was over%s", key, earlier.Held-c.At,
				earlier.Call, during(faults, earlier.At, c.At))
		}
		if c.DueAt > 0 && c.At < c.DueAt {
			say("EARLY: %s was called %.1f ms before its header's due time", key, c.DueAt-c.At)
		}
		if due, ok := s.dueAt(c); !ok {
			say("EARLY: %s was called %.1f ms before its due time", key, due-c.At)
		}
		if !s.knows(c) {
			say("BODY: call %d of %s carried a body that it did not have then", c.Attempt, key)
		}
		for _, d := range s.deletes {
			if d.Result == Acknowledged && c.At > d.End+slack && !s.pushedBetween(d.At, c.At) {
				say("AFTER DELETE: %s was called %.1f ms after its delete was answered%s", key, c.At-d.End,
					during(faults, d.At, c.At))
			}
		}
	}
	return wrong
}

// heldBy returns the earlier call of a worker that held the job when call n took it, and whether no fault explains
// that.
func (s *story) heldBy(n int, faults []Event) (earlier Event, wrong bool) {
	c := s.calls[n]
	if c.Shard == "" {
		return earlier, false
	}
	for _, e := range s.calls[:n] {
		if c.At < e.Held-1 && !s.takenAway(e, c) && !forgotten(e, c, faults) {
			return e, true
		}
	}
	return earlier, false
}

// takenAway reports whether a request may have ended the lease of a call before another one.
func (s *story) takenAway(from, to Event) bool {
	return slices.ContainsFunc(slices.Concat(s.requests, s.deletes), func(r Event) bool {
		return r.Result != Refused && r.At <= to.At && (r.Result == Unknown || r.End >= from.At)
	})
}

// lossy reports whether Redis may lose accepted writes in a fault.
func lossy(fault string) bool {
	for _, words := range []string{"redis killed", "forgot", "lost everything", "flushed", "promoted", "restored"} {
		if strings.Contains(fault, words) {
			return true
		}
	}
	return false
}

// forgotten reports whether a shard may have lost a lease, or two shards may have had copies of the job.
func forgotten(from, to Event, faults []Event) bool {
	return slices.ContainsFunc(faults, func(f Event) bool {
		return f.At <= to.At && (from.Shard != to.Shard || lossy(f.Fault) && f.Calm >= from.At)
	})
}

// standing returns the requests that may be in force when a call arrives: those that were neither refused nor certainly
// replaced by a later one.
func (s *story) standing(c Event, counts func(Event) bool) (standing []Event) {
	for n, r := range s.requests {
		if r.Result == Refused || r.At > c.At || !counts(r) {
			continue
		}
		replaced := r.Result == Acknowledged && !r.isSpooled() &&
			slices.ContainsFunc(s.requests[n+1:], func(later Event) bool {
				return later.Result == Acknowledged && counts(later) && later.End <= c.At-settled(later)
			})
		if !replaced {
			standing = append(standing, r)
		}
	}
	return standing
}

// settled is how long, in milliseconds, after its answer a request may not take effect yet. A call that was reserved
// just before a replace may still start, later if Redis is slow; a change is refused then.
func settled(r Event) float64 {
	if r.Kind == Push {
		return slack + float64(store.WidestStart.Milliseconds())
	}
	return slack
}

// dueAt reports whether a call may arrive, and from when on.
func (s *story) dueAt(c Event) (due float64, ok bool) {
	for n, r := range s.standing(c, func(r Event) bool { return r.SetsDue }) {
		if d := r.At + r.DelayMS; n == 0 || d < due {
			due = d
		}
	}
	return due, due <= c.At
}

// knows reports whether the job may have had the body of a call.
func (s *story) knows(c Event) bool {
	return c.Body == "" || // aborted in transit
		slices.ContainsFunc(
			s.standing(c, func(r Event) bool { return r.Body != "" }),
			func(r Event) bool { return r.Body == c.Body },
		)
}

func (s *story) deliveries() []Event {
	return slices.DeleteFunc(slices.Clone(s.calls), func(c Event) bool { return c.Result != Good })
}

// repeats returns how often the job was delivered again. A replaced job is, if it was delivered before.
func (s *story) repeats() int {
	pushes := 0
	for _, r := range s.requests {
		pushes += one(r.Kind == Push && r.Result != Refused)
	}
	return max(0, len(s.deliveries())-max(pushes, 1))
}

// repeatExplained reports whether a job that was delivered again was in flight during a fault: one that began before
// its last delivery and was not over when the job was pushed (a lost answer may have left a copy in a second shard).
func (s *story) repeatExplained(faults []Event) bool {
	calls := s.deliveries()
	first, last := calls[0], calls[len(calls)-1]
	if last.Shard != "" { // an answered ack is not lost when a process is killed
		return forgotten(first, last, faults) || s.pushedTwice(first, faults)
	}
	return during(faults, s.requests[0].At, last.At) != ""
}

// pushedTwice reports whether a push may have been made twice: Redis's reply was lost at a fault, so the push was
// repeated or spooled, after the first push's job had been delivered. A push that nobody waited for may have been
// spooled later.
func (s *story) pushedTwice(first Event, faults []Event) bool {
	return slices.ContainsFunc(s.requests, func(r Event) bool {
		return r.Kind == Push && (r.isSpooled() || r.Error != "" || first.At <= r.End) &&
			during(faults, r.At, r.End) != ""
	})
}

// during returns the names of the faults between two times.
func during(faults []Event, from, to float64) (text string) {
	for _, f := range faults {
		if f.At <= to && f.Calm >= from {
			text += ", during: " + f.Fault
		}
	}
	return text
}
