package bulk

import (
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/store"
)

// The actions on jobs.
const (
	Run    = "run"
	Retry  = "retry" // re-drive a dead job
	Delete = "delete"
	Due    = "due" // change the due time, the priority, or both
)

// Action is what to do with jobs.
type Action struct {
	Do    string        `json:"do"`
	At    time.Time     `json:"at,omitzero"`    // the new due time
	Shift time.Duration `json:"shift,omitzero"` // or how far to move it

	Priority string `json:"priority,omitempty"` // the new priority
}

// Actions returns the actions on all jobs of a state.
func Actions(s store.State) []string {
	switch s {
	case store.Delayed:
		return []string{Run, Due, Delete}
	case store.Ready:
		return []string{Due, Delete}
	case store.Dead:
		return []string{Retry, Delete}
	}
	return nil
}

func (p *Params) validate() error {
	switch {
	case !slices.Contains(Actions(p.Filter.State), p.Do):
		return message.New("task.no_action", p.Do, string(p.Filter.State))
	case p.Do == Due && p.At.IsZero() && p.Shift == 0 && p.Priority == "":
		return message.New("task.no_shift", "")
	}
	return nil
}

// dueFrom returns the new due time of a job whose call was planned for a time.
func (a Action) dueFrom(at time.Time) time.Time {
	if !a.At.IsZero() {
		return a.At
	}
	return at.Add(a.Shift)
}

// change returns the change of a job.
func (a Action) change(j *store.Job) (c store.Change, err error) {
	if !a.At.IsZero() || a.Shift != 0 {
		due := a.dueFrom(callTime(j))
		c.DueAt = &due
	}
	if a.Priority != "" {
		var p store.Priority
		p, err = store.ParsePriority(a.Priority)
		c.Priority = &p
	}
	return c, err
}

// changed reports whether a job has the due time that the action gives to one that was listed, and its priority.
func (a Action) changed(listed time.Time, j *store.Job) bool {
	return a.dueFrom(listed).UnixMilli() == callTime(j).UnixMilli() &&
		(a.Priority == "" || a.Priority == j.Priority.String())
}

// fits reports whether the action suits a job's state, and whether the job is still dead, or alive, as it was shown. If
// shown is empty, any state will do.
func (a Action) fits(j *store.Job, shown store.State) bool {
	dead := j.State == store.Dead
	if dead && a.Do == Due || !dead && a.Do == Retry {
		return false
	}
	return shown == "" || dead == (shown == store.Dead)
}
