package jobs

import (
	"fmt"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/journal/search"
	"github.com/wakecall/wakecall/internal/store"
)

// timeline is what happened to a job, newest first.
type timeline struct {
	search.Job
	Steps []step
}

// step is an event of the journals, or what a job's record says. Of a record, What may also be due, next, running or
// again, and is empty for an attempt.
type step struct {
	search.Event
	Sent   string // the headers that are known of an attempt's request
	Answer string
	Kept   *store.Answer // the result of a job that was waited for; Answer is its body
	Type   string        // content type of the result
	Last   bool          // the newest attempt of the record
}

func at[W ~string](t time.Time, what W) step {
	return step{Event: search.Event{At: t, What: string(what)}}
}

// stepsOf returns what the record of a job says. id is the header with the job's id; empty if there is none.
func (h *Handler) stepsOf(j *store.Job, id string) []step {
	list := []step{at(j.CreatedAt, journal.OpPush)}
	if j.DueAt.After(j.CreatedAt) {
		list = append(list, at(j.DueAt, "due"))
	}
	n := 0
	for i := range j.History {
		s := attemptStep(&j.History[i], id)
		last := list[len(list)-1]
		if s.N < n || s.N == n && n == 1 && last.Error != "" && last.Status > 0 { // a snooze has no error
			list = append(list, at(s.At, "again"))
		}
		n, s.Last = s.N, i == len(j.History)-1
		list = append(list, s)
	}
	last := list[len(list)-1].At
	if n > 0 && j.Attempts+j.Snoozes == 0 {
		list = append(list, at(last, "again"))
	}
	switch {
	case j.State == store.Dead:
		s := at(j.DeadAt, journal.Dead)
		if last.After(s.At) { // clocks differ by milliseconds
			s.At = last
		}
		s.Reason = j.DeadReason
		list = append(list, s)
	case j.State == store.Running:
		list = append(list, at(j.LeaseUntil, "running"))
		list[len(list)-1].N = j.Attempts + 1
	case j.State == store.Delayed && !j.NextAt.Equal(j.DueAt):
		list = append(list, at(j.NextAt, "next"))
	case j.State == store.Finished:
		list = append(list, h.endStep(j))
	}
	return list
}

func attemptStep(a *store.Attempt, id string) step {
	s := at(time.UnixMilli(a.StartedAt), "")
	s.N, s.StartedAt, s.TookMS, s.Status, s.Error, s.Attempt = a.N, s.At, a.TookMS, a.Status, a.Error, true
	s.Answer, _, _ = ShownBody([]byte(a.Answer))
	if id != "" && a.Status > 0 { // without a response, it may not have been sent
		s.Sent = fmt.Sprintf("Wakecall-Id: %s, Wakecall-Attempt: %d", id, a.N)
	}
	return s
}

func (h *Handler) endStep(j *store.Job) step {
	s := at(j.FinishedAt, journal.Done)
	if s.Kept = j.Answer; j.Answer != nil {
		body := []byte(j.Answer.Result)
		if !h.isPull(j.Topic) {
			s.Type, body = j.Answer.Response()
		}
		s.Answer, _, _ = ShownBody(body)
	}
	return s
}

// merge adds what the journals know to what the record says, and leaves out what both have.
func merge(record []step, events []search.Event) []step {
	var list []step
	for _, e := range events {
		s := step{Event: e}
		record = slices.DeleteFunc(record, func(r step) bool {
			if r.says(e) && r.Attempt {
				s, s.Event = r, e
			}
			return r.says(e)
		})
		list = append(list, s)
	}
	list = append(list, record...)
	slices.SortStableFunc(list, func(a, b step) int { return a.Begin().Compare(b.Begin()) })
	slices.Reverse(list)
	return list
}

// Begin returns when a step was by the shard's clock, if it is known: the lines of the journals are written afterwards,
// so a job may have been called before the line that says it was pushed.
func (s step) Begin() time.Time {
	switch op := journal.Op(s.What); {
	case !s.StartedAt.IsZero():
		return s.StartedAt
	case (op == journal.OpPush || op == journal.OpReplace) && !s.CreatedAt.IsZero():
		return s.CreatedAt
	case s.byHand() && !s.DueAt.IsZero():
		return s.DueAt
	}
	return s.At
}

// byHand reports whether the step is an event that made the job due.
func (s step) byHand() bool {
	return s.What == string(journal.OpRun) || s.What == string(journal.OpRedrive)
}

// says reports whether an event of a journal is this step of a record.
func (s step) says(e search.Event) bool {
	op, byHand := journal.Op(e.What), step{Event: e}.byHand()
	switch s.What {
	case "": // an attempt
		return e.N == s.N && e.StartedAt.UnixMilli() == s.StartedAt.UnixMilli()
	case "again":
		return byHand
	case "due":
		return byHand && e.DueAt.UnixMilli() == s.At.UnixMilli()
	case string(journal.OpPush):
		return op == journal.OpPush || op == journal.OpReplace
	}
	return false
}
