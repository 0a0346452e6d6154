package bulk

import (
	"cmp"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/queue"
)

// The actions on jobs.
const (
	Run    = "run"
	Retry  = "retry"
	Delete = "delete"
	Due    = "due" // change the due time
)

// Actions returns the actions on all jobs of a state.
func Actions(s queue.State) []string {
	switch s {
	case queue.Delayed:
		return []string{Run, Due, Delete}
	case queue.Ready:
		return []string{Due, Delete}
	case queue.Dead:
		return []string{Retry, Delete}
	}
	return nil
}

// Params holds a task's action, options, progress and result.
type Params struct {
	Filter Filter        `json:"filter"`
	Do     string        `json:"do,omitempty"`
	At     time.Time     `json:"at,omitzero"`    // the new due time
	Shift  time.Duration `json:"shift,omitzero"` // or how far to move it

	Rate      float64 `json:"rate,omitempty"` // jobs per second; 0: no limit
	Staged    bool    `json:"staged,omitempty"`
	StopAbove float64 `json:"stop_above,omitempty"` // share of failures above which a staged task ends

	Full   bool    `json:"full,omitempty"` // the list could not hold all matching jobs
	Listed bool    `json:"listed,omitempty"`
	Offset int64   `json:"offset,omitempty"` // in the list; the jobs before it are done
	Result Result  `json:"result"`
	Stages []Stage `json:"stages,omitempty"`
}

// Result counts the outcomes of the jobs that matched at the start.
type Result struct {
	Done    int64  `json:"done"`
	Running int64  `json:"running"` // left alone
	Gone    int64  `json:"gone"`    // delivered or deleted meanwhile
	Moved   int64  `json:"moved"`   // no longer matching
	Failed  int64  `json:"failed"`
	Error   string `json:"error,omitempty"` // the first one
}

// Skipped returns the number of jobs that needed no action.
func (r Result) Skipped() int64 { return r.Running + r.Gone + r.Moved }

// Add adds the outcomes of other jobs.
func (r *Result) Add(o Result) {
	r.Done, r.Running, r.Gone = r.Done+o.Done, r.Running+o.Running, r.Gone+o.Gone
	r.Moved, r.Failed, r.Error = r.Moved+o.Moved, r.Failed+o.Failed, cmp.Or(r.Error, o.Error)
}

// complete fills in params that the kinds of tasks on dead jobs imply, which earlier versions did not store.
func (p *Params) complete(kind string) {
	switch kind {
	case KindRedrive:
		p.Do, p.Filter.State = Retry, queue.Dead
	case KindDeleteDead:
		p.Do, p.Filter.State = Delete, queue.Dead
	}
}

func (p *Params) validate() error {
	switch {
	case !slices.Contains(Actions(p.Filter.State), p.Do):
		return message.New("task.no_action", p.Do, string(p.Filter.State))
	case p.Do == Due && p.At.IsZero() && p.Shift == 0:
		return message.New("task.no_shift", "")
	}
	return nil
}

// dueFrom returns the new due time of a job that was to be called at a time.
func (p *Params) dueFrom(at time.Time) time.Time {
	if !p.At.IsZero() {
		return p.At
	}
	return at.Add(p.Shift)
}
