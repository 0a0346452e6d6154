package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/wakecall/wakecall/internal/queue"
)

// slack is how long, in milliseconds, a call may take from a dispatcher to the endpoint's clock on a busy machine: a
// call that began before its job was deleted may arrive this much later.
const slack = 25

// verdict is the result of judging a record.
type verdict struct {
	Pushed, Acknowledged, Refused, Unknown int
	Changed, Deleted                       int
	Calls, Taken, Delivered, Dead          int
	Repeated                               int // jobs that were delivered more than once
	Unexplained                            int // of those, without a fault
	Wrong                                  []string

	faults []*faultCount
}

// String returns the counts, and a table of the faults.
func (v verdict) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "fault\ttimes\tlongest\tslowest recovery")
	for _, f := range v.faults {
		fmt.Fprintf(w, "%s\t%d\t%.2f s\t%.2f s\n", f.name, f.n, f.longest/1000, f.worst/1000)
	}
	_ = w.Flush() // to a Builder
	fmt.Fprintf(&b, "\njobs: %d pushed, %d acknowledged, %d refused, %d unknown; %d changed, %d deleted\n",
		v.Pushed, v.Acknowledged, v.Refused, v.Unknown, v.Changed, v.Deleted)
	fmt.Fprintf(&b, "calls: %d made, %d jobs taken by workers; %d delivered, %d dead, %d delivered more than once "+
		"(%d by no fault)\n", v.Calls, v.Taken, v.Delivered, v.Dead, v.Repeated, v.Unexplained)
	return b.String()
}

// story is everything known about a job.
type story struct {
	requests []event // pushes, changes, runs, in the order they were sent
	deletes  []event
	calls    []event // with Result and End of their answers
	dead     string  // why it is dead at the end; empty if it is not

	deathStatus int // of the last call's answer, if that made it dead
}

// judge computes the verdict. A push that was spooled (answered 202) is made some time later. The laws:
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
func judge(events []event) verdict {
	v := verdict{faults: countFaults(events)}
	stories, faults := collect(events)
	for key, s := range stories {
		v.count(s)
		v.Wrong = append(v.Wrong, s.wrong(key, faults)...)
		if repeat, explained := s.repeated(faults); repeat {
			v.Repeated++
			if !explained {
				v.Unexplained++
				v.Wrong = append(v.Wrong, fmt.Sprintf("TWICE: %s was delivered again, and no fault explains it", key))
			}
		}
	}
	slices.Sort(v.Wrong)
	return v
}

func collect(events []event) (map[string]*story, []event) {
	stories := map[string]*story{}
	answers := map[int]event{}
	var faults []event
	for _, e := range events {
		if e.Kind == evFault {
			faults = append(faults, e)
			continue
		}
		if e.Kind == evAnswer {
			answers[e.Call] = e
			continue
		}
		s := stories[e.key()]
		if s == nil {
			s = &story{}
			stories[e.key()] = s
		}
		switch e.Kind {
		case evCall:
			s.calls = append(s.calls, e)
		case evDelete:
			s.deletes = append(s.deletes, e)
		case evDead:
			s.dead, s.deathStatus = cmp.Or(e.Error, "dead"), e.Status
		default:
			s.requests = append(s.requests, e)
		}
	}
	for _, s := range stories {
		slices.SortFunc(s.requests, func(a, b event) int { return cmp.Compare(a.At, b.At) })
		for n := range s.calls {
			answer := answers[s.calls[n].Call]
			s.calls[n].Result, s.calls[n].End, s.calls[n].Held = answer.Result, answer.At, answer.Held
		}
		slices.SortFunc(s.calls, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	}
	return stories, faults
}

func (v *verdict) count(s *story) {
	for _, r := range s.requests {
		switch {
		case r.Kind == evPush:
			v.Pushed++
			v.Acknowledged += one(r.Result == acknowledged)
			v.Refused += one(r.Result == refused)
			v.Unknown += one(r.Result == unknown)
		case r.Result == acknowledged:
			v.Changed++
		}
	}
	v.Deleted += one(s.deleted(0, acknowledged))
	for _, c := range s.calls {
		v.Calls += one(c.Shard == "")
		v.Taken += one(c.Shard != "")
	}
	v.Delivered += one(s.delivered(0))
	v.Dead += one(s.dead != "")
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// pushedBetween reports whether a push may have created the job again in that time.
func (s *story) pushedBetween(from, to float64) bool {
	return slices.ContainsFunc(s.requests, func(r event) bool {
		return r.Kind == evPush && r.Result != refused && (r.At > from || r.isSpooled()) && r.At <= to
	})
}

// delivered reports whether the job was delivered by a call that arrived after a given time.
func (s *story) delivered(since float64) bool {
	return slices.ContainsFunc(s.calls, func(c event) bool {
		return c.At >= since && (c.Result == good || c.Result == maybe)
	})
}

// deleted reports whether a delete after a given time had one of these results.
func (s *story) deleted(since float64, results ...string) bool {
	return slices.ContainsFunc(s.deletes, func(d event) bool {
		return d.At >= since && slices.Contains(results, d.Result)
	})
}

// deadUncalled reports whether the job is dead by an answer of the endpoint, although it was not called since it was
// pushed or re-driven last.
func (s *story) deadUncalled() bool {
	pushed, _ := s.last(evPush)
	redriven, _ := s.last(evRedrive)
	since := max(pushed, redriven)
	return s.deathStatus != 0 && !slices.ContainsFunc(s.calls, func(c event) bool { return c.At >= since })
}

// isImmortal reports whether jobs of this topic never die.
func (s *story) isImmortal() bool {
	return slices.ContainsFunc(topics, func(t topic) bool {
		return len(s.requests) > 0 && t.name == s.requests[0].Topic && t.fields["max_attempts"] == attemptsEnough
	})
}

// last returns the time of the last acknowledged request of a kind.
func (s *story) last(kind string) (at float64, ok bool) {
	for _, r := range s.requests {
		if r.Kind == kind && r.Result == acknowledged {
			at, ok = r.At, true
		}
	}
	return at, ok
}

func (s *story) pushed(results ...string) bool {
	return slices.ContainsFunc(s.requests, func(r event) bool {
		return r.Kind == evPush && slices.Contains(results, r.Result)
	})
}

func (s *story) wrong(key string, faults []event) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	since, accepted := s.last(evPush) // the first push, or one that replaced it
	if accepted && !s.delivered(since) && s.dead == "" && !s.deleted(since, acknowledged, unknown) {
		say("LOST: %s was acknowledged, but neither delivered nor dead nor deleted (%d calls)", key, len(s.calls))
	}
	if accepted && s.dead != "" && s.deleted(since, acknowledged) {
		say("DELETED AND DEAD: %s is dead, though its deletion was answered", key)
	}
	if s.deadUncalled() {
		say("WRONGLY DEAD: %s is dead without a call since it was pushed or re-driven", key)
	}
	if s.dead != "" && s.isImmortal() {
		say("WRONGLY DEAD: %s is dead (%s), and has attempts left", key, s.dead)
	}
	if len(s.calls) > 0 && !s.pushed(acknowledged, unknown) {
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
			if d.Result == acknowledged && c.At > d.End+slack && !s.pushedBetween(d.At, c.At) {
				say("AFTER DELETE: %s was called %.1f ms after its delete was answered%s", key, c.At-d.End,
					during(faults, d.At, c.At))
			}
		}
	}
	return wrong
}

// heldBy returns the earlier call of a worker that held the job when call n took it, and whether no fault explains
// that.
func (s *story) heldBy(n int, faults []event) (earlier event, wrong bool) {
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
func (s *story) takenAway(from, to event) bool {
	return slices.ContainsFunc(slices.Concat(s.requests, s.deletes), func(r event) bool {
		return r.Result != refused && r.At <= to.At && (r.Result == unknown || r.End >= from.At)
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
func forgotten(from, to event, faults []event) bool {
	return slices.ContainsFunc(faults, func(f event) bool {
		return f.At <= to.At && (from.Shard != to.Shard || lossy(f.Fault) && f.Calm >= from.At)
	})
}

// standing returns the requests that may be in force when a call arrives: those that were neither refused nor certainly
// replaced by a later one.
func (s *story) standing(c event, counts func(event) bool) (standing []event) {
	for n, r := range s.requests {
		if r.Result == refused || r.At > c.At || !counts(r) {
			continue
		}
		replaced := r.Result == acknowledged && !r.isSpooled() &&
			slices.ContainsFunc(s.requests[n+1:], func(later event) bool {
				return later.Result == acknowledged && counts(later) && later.End <= c.At-settled(later)
			})
		if !replaced {
			standing = append(standing, r)
		}
	}
	return standing
}

// settled is how long, in milliseconds, after its answer a request may not take effect yet. A call that was reserved
// just before a replace may still start; a change is refused then.
func settled(r event) float64 {
	if r.Kind == evPush {
		return slack + float64(queue.StartWindow.Milliseconds())
	}
	return slack
}

// dueAt reports whether a call may arrive, and from when on.
func (s *story) dueAt(c event) (due float64, ok bool) {
	for n, r := range s.standing(c, func(r event) bool { return r.SetsDue }) {
		if d := r.At + r.DelayMS; n == 0 || d < due {
			due = d
		}
	}
	return due, due <= c.At
}

// knows reports whether the job may have had the body of a call.
func (s *story) knows(c event) bool {
	return c.Body == "" || // aborted in transit
		slices.ContainsFunc(
			s.standing(c, func(r event) bool { return r.Body != "" }),
			func(r event) bool { return r.Body == c.Body },
		)
}

// repeated reports whether a job was delivered more than once, and whether it was in flight during a fault: one that
// began before its last delivery and was not over when the job was pushed (a lost answer may have left a copy in a
// second shard).
func (s *story) repeated(faults []event) (repeated, explained bool) {
	times := 0
	var first, last event
	for _, c := range s.calls {
		if c.Result != good {
			continue
		}
		if times++; times == 1 {
			first = c
		}
		last = c
	}
	pushes := 0
	for _, r := range s.requests {
		pushes += one(r.Kind == evPush && r.Result != refused)
	}
	if times <= max(pushes, 1) { // a replaced job is delivered again, if it was delivered before
		return false, true
	}
	if last.Shard != "" { // an answered ack is not lost when a process is killed
		return true, forgotten(first, last, faults) || s.pushedTwice(first, faults)
	}
	return true, during(faults, s.requests[0].At, last.At) != ""
}

// pushedTwice reports whether a push may have been made twice: its answer was lost at a fault, so it was repeated or
// spooled, after the first push's job had been delivered.
func (s *story) pushedTwice(first event, faults []event) bool {
	return slices.ContainsFunc(s.requests, func(r event) bool {
		return r.Kind == evPush && (r.isSpooled() || first.At <= r.End) && during(faults, r.At, r.End) != ""
	})
}

// during returns the names of the faults between two times.
func during(faults []event, from, to float64) (text string) {
	for _, f := range faults {
		if f.At <= to && f.Calm >= from {
			text += ", during: " + f.Fault
		}
	}
	return text
}
