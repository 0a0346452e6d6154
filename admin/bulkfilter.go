package admin

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// jobFilter chooses jobs of a topic.
type jobFilter struct {
	Topic string      `json:"topic"`
	State queue.State `json:"state"`
	ID    string      `json:"id,omitempty"`    // the id contains it; with a ^ before it the id begins with it
	Error string      `json:"error,omitempty"` // the last error, or why it is dead, contains it
	Since time.Time   `json:"since,omitzero"`  // due then or later
	Until time.Time   `json:"until,omitzero"`  // due before
}

// readJobFilter takes the filter from a form or a query; what is no time is told.
func readJobFilter(topic string, form url.Values) (jobFilter, error) {
	f := jobFilter{
		Topic: topic, State: queue.State(form.Get("state")), ID: strings.TrimSpace(form.Get("id")), Error: strings.TrimSpace(form.Get("error")),
	}
	var err error
	if f.Since, err = minute(form.Get("since")); err != nil {
		return f, err
	}
	f.Until, err = minute(form.Get("until"))
	return f, err
}

// minute reads a time as browsers send it; empty is the zero time.
func minute(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{minuteForm, minuteForm + ":05"} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, sayError("bulk.no_time", clipped(text))
}

// Fields are the filter as form fields, to send it again.
func (f jobFilter) Fields() map[string]string {
	m := map[string]string{"state": string(f.State), "id": f.ID, "error": f.Error}
	if !f.Since.IsZero() {
		m["since"] = f.Since.Format(minuteForm)
	}
	if !f.Until.IsZero() {
		m["until"] = f.Until.Format(minuteForm)
	}
	return m
}

// Prefix is what ids must begin with; empty: they may have it anywhere.
func (f jobFilter) Prefix() string {
	if begin, ok := strings.CutPrefix(f.ID, "^"); ok {
		return begin
	}
	return ""
}

// Narrow says whether the filter leaves anything of the state out.
func (f jobFilter) Narrow() bool {
	return f.ID != "" || f.Error != "" || !f.Since.IsZero() || !f.Until.IsZero()
}

func (f jobFilter) match(j *queue.Job) bool {
	due := callTime(j)
	switch {
	case j.State != f.State,
		!f.Since.IsZero() && due.Before(f.Since),
		!f.Until.IsZero() && !due.Before(f.Until):
		return false
	}
	id := strings.ToLower(j.ID)
	if begin := strings.ToLower(f.Prefix()); begin != "" {
		if !strings.HasPrefix(id, begin) {
			return false
		}
	} else if !strings.Contains(id, strings.ToLower(strings.TrimPrefix(f.ID, "^"))) {
		return false
	}
	return f.Error == "" || strings.Contains(strings.ToLower(lastError(j)), strings.ToLower(f.Error))
}

// callTime is when the job is called next, as the pages show it: a retry does not move its due time.
func callTime(j *queue.Job) time.Time {
	if !j.NextAt.IsZero() {
		return j.NextAt
	}
	return j.DueAt
}

// bulkActions are what can be done with jobs of a state.
var bulkActions = map[queue.State][]string{
	queue.Delayed: {"run", "due", "delete"}, queue.Ready: {"due", "delete"}, queue.Dead: {"retry", "delete"},
}

// bulkParams are what a task does with the jobs that match, and what came of it.
type bulkParams struct {
	Filter jobFilter     `json:"filter"`
	Do     string        `json:"do"`             // run, retry, delete, due
	At     time.Time     `json:"at,omitzero"`    // the new due time
	Shift  time.Duration `json:"shift,omitzero"` // or how far to move it
	Full   bool          `json:"full,omitempty"` // the list could not hold all
	Listed bool          `json:"listed,omitempty"`
	Offset int64         `json:"offset,omitempty"` // in the list of what matched at the start: what lies before is decided
	Result bulkResult    `json:"result"`
}

// bulkResult counts what came of the jobs that matched at the start.
type bulkResult struct {
	Done    int64  `json:"done"`
	Running int64  `json:"running"` // left alone
	Gone    int64  `json:"gone"`    // delivered or deleted meanwhile
	Moved   int64  `json:"moved"`   // no longer matching
	Failed  int64  `json:"failed"`
	Error   string `json:"error,omitempty"` // the first
}

// Skipped are those that nothing was done with, as nothing had to be done.
func (r bulkResult) Skipped() int64 { return r.Running + r.Gone + r.Moved }

// ShiftText is how far due times move, with a sign.
func (p *bulkParams) ShiftText() string {
	if p.Shift < 0 {
		return "−" + duration(-p.Shift)
	}
	return "+" + duration(p.Shift)
}

func (p *bulkParams) validate() error {
	switch {
	case !slices.Contains(bulkActions[p.Filter.State], p.Do):
		return sayError("bulk.no_action", clipped(p.Do), clipped(string(p.Filter.State)))
	case p.Do == "due" && p.At.IsZero() && p.Shift == 0:
		return sayError("bulk.no_shift", "")
	}
	return nil
}

// readDue reads the new due time of several jobs: due_at is an instant, shift how far to move each.
func readDue(form url.Values) (at time.Time, shift time.Duration, err error) {
	if at, err = minute(form.Get("due_at")); err != nil || !at.IsZero() {
		return at, 0, tooFar(err, at)
	}
	text := strings.TrimSpace(form.Get("shift"))
	var d registry.Duration
	if d.UnmarshalText([]byte(strings.TrimLeft(text, "+-"))) != nil || d == 0 {
		return at, 0, sayError("bulk.no_shift", clipped(text))
	}
	shift = d.Std()
	if strings.HasPrefix(text, "-") {
		shift = -shift
	}
	return at, shift, nil
}

func tooFar(err error, at time.Time) error {
	if err == nil && time.Until(at) > queue.MaxDelay {
		return sayError("bulk.too_far")
	}
	return err
}
