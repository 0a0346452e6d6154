package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// jobsFilter chooses jobs of one topic in one state. Its members are those of deadFilter where they mean the same, so that tasks show alike.
type jobsFilter struct {
	Topic string      `json:"topic"`
	State queue.State `json:"state"`
	Text  string      `json:"text,omitempty"`  // in the id
	Since time.Time   `json:"since,omitzero"`  // due then or later
	Until time.Time   `json:"until,omitzero"`  // due before
	Made  time.Time   `json:"before,omitzero"` // created before: what is pushed while the task runs is not meant
}

func (f jobsFilter) match(j *queue.Job) bool {
	return (f.Text == "" || strings.Contains(strings.ToLower(j.ID), strings.ToLower(f.Text))) &&
		(f.Since.IsZero() || !j.DueAt.Before(f.Since)) && (f.Until.IsZero() || j.DueAt.Before(f.Until)) &&
		(f.Made.IsZero() || j.CreatedAt.Before(f.Made))
}

// jobsParams are what a task does with them.
type jobsParams struct {
	Filter jobsFilter    `json:"filter"`
	Do     string        `json:"do"` // run, delete, due or shift
	DueAt  time.Time     `json:"due_at,omitzero"`
	Shift  time.Duration `json:"shift,omitempty"`
}

const (
	jobsPage   = 500
	countLimit = 10_000 // jobs that are counted before an action is confirmed
)

// readJobsParams reads the form of an action on everything that matches.
func (a *Admin) readJobsParams(c echo.Context, topic string) (jobsParams, error) {
	p := jobsParams{Do: c.FormValue("do"), Filter: jobsFilter{Topic: topic, State: queue.State(c.FormValue("state")), Text: strings.TrimSpace(c.FormValue("text"))}}
	if !slices.Contains([]queue.State{queue.Delayed, queue.Ready, queue.Dead}, p.Filter.State) {
		return p, echo.NewHTTPError(http.StatusBadRequest, fmt.Sprintf("state: %.40q has no jobs to act upon", p.Filter.State))
	}
	var err error
	for name, at := range map[string]*time.Time{"since": &p.Filter.Since, "until": &p.Filter.Until, "due_at": &p.DueAt} {
		text := c.FormValue(name)
		if text == "" {
			continue
		}
		if *at, err = time.Parse(minuteForm, text); err != nil {
			return p, &registry.FieldError{Field: name, Detail: fmt.Sprintf("%.40q is not a time like 2026-01-31T08:30 (UTC)", text)}
		}
	}
	switch p.Do {
	case "run", "delete":
	case "due":
		if p.DueAt.IsZero() {
			return p, &registry.FieldError{Field: "due_at", Detail: "is missing"}
		}
	case "shift":
		if p.Shift, err = parseShift(c.FormValue("shift")); err != nil {
			return p, err
		}
	default:
		return p, echo.NewHTTPError(http.StatusBadRequest, fmt.Sprintf("there is no action %.40q", p.Do))
	}
	if p.Filter.State == queue.Dead && p.Do != "run" && p.Do != "delete" {
		return p, &registry.FieldError{Field: "do", Detail: "a dead job has no due time to change: run it"}
	}
	return p, nil
}

func parseShift(text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d == 0 || d.Abs() > queue.MaxDelay {
		return 0, &registry.FieldError{Field: "shift", Detail: fmt.Sprintf("%.40q is not a duration like 30m or -1h30m", text)}
	}
	return d, nil
}

type jobsAllData struct {
	jobsParams
	Topic string
	Count int
	More  bool // than were counted
	Form  map[string]string
}

// allJobs counts what matches and asks; confirmed, it starts the task.
func (a *Admin) allJobs(c echo.Context) error {
	t, err := a.topicOf(c)
	if err != nil {
		return err
	}
	p, err := a.readJobsParams(c, t.Name)
	if fields, rest := fieldErrors(err); err != nil && rest == nil {
		for name, detail := range fields {
			a.flashText(c, "warning", name+": "+detail)
		}
		return a.back(c, "/topics")
	}
	if err != nil {
		return err
	}
	if c.FormValue("sure") != "" {
		id, err := a.runner().start(c.Request().Context(), actor(c), "jobs", p)
		if err != nil {
			return err
		}
		return a.redirect(c, a.below("/tasks", fmt.Sprint(id)))
	}
	d := jobsAllData{jobsParams: p, Topic: t.Name, Form: map[string]string{}}
	for _, name := range []string{"do", "state", "text", "since", "until", "due_at", "shift"} {
		d.Form[name] = c.FormValue(name)
	}
	if d.Count, d.More, err = countJobs(c.Request().Context(), a.queue, p.Filter); err != nil {
		return err
	}
	return a.render(c, http.StatusOK, "jobs_all", d)
}

type jobLister interface {
	List(ctx context.Context, topic string, state queue.State, cursor string, limit int) ([]queue.Job, string, error)
}

func countJobs(ctx context.Context, q jobLister, f jobsFilter) (n int, more bool, err error) {
	err = eachMatch(ctx, q, f, func(string) bool { n++; return n < countLimit })
	return n, n >= countLimit, err
}

// eachMatch goes through the jobs that match until yield says no.
func eachMatch(ctx context.Context, q jobLister, f jobsFilter, yield func(id string) bool) error {
	for cursor := ""; ; {
		jobs, next, err := q.List(ctx, f.Topic, f.State, cursor, jobsPage)
		if err != nil {
			return fmt.Errorf("list the %s jobs of %s: %w", f.State, f.Topic, err)
		}
		for i := range jobs {
			if f.match(&jobs[i]) && !yield(jobs[i].ID) {
				return nil
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// jobsTask finds everything that matches first, since jobs move while they are acted upon, and then acts on one after the other.
func (a *Admin) jobsTask(ctx context.Context, run *taskRun) error {
	var p jobsParams
	if err := json.Unmarshal(run.Params, &p); err != nil {
		return fmt.Errorf("read what the task should do: %w", err)
	}
	if p.Do == "shift" && run.Done > 0 {
		return &stoppedError{why: fmt.Sprintf("interrupted after %d jobs; a shift is not repeated, for it would move those again", run.Done)}
	}
	p.Filter.Made = run.CreatedAt
	var ids []string
	err := eachMatch(ctx, a.queue, p.Filter, func(id string) bool { ids = append(ids, id); return len(ids) < redriveLimit })
	if err != nil {
		return err
	}
	run.total(run.Done + int64(len(ids)))
	for _, id := range ids {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := a.actOnMatch(ctx, &p, id)
		var un *queue.UnavailableError
		for errors.As(err, &un) { // its shard is away: it is waited for
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
			un, err = nil, a.actOnMatch(ctx, &p, id)
		}
		if err != nil {
			run.progress(0, 1)
			continue
		}
		run.progress(1, 0)
	}
	return nil
}

// actOnMatch leaves a job alone that is not in the state any more in which it was found.
func (a *Admin) actOnMatch(ctx context.Context, p *jobsParams, id string) error {
	topic := p.Filter.Topic
	if p.Do == "shift" || p.Do == "delete" {
		job, err := a.queue.Get(ctx, topic, id)
		if err != nil {
			return err
		}
		if job.State != p.Filter.State {
			return fmt.Errorf("%s is %s by now", id, job.State)
		}
		if p.Do == "shift" {
			due := job.DueAt.Add(p.Shift)
			_, err := a.queue.Change(ctx, topic, id, queue.Change{DueAt: &due})
			return err
		}
		return a.queue.Delete(ctx, topic, id)
	}
	if p.Do == "due" {
		_, err := a.queue.Change(ctx, topic, id, queue.Change{DueAt: &p.DueAt})
		return err
	}
	_, err := a.queue.RunNow(ctx, topic, id)
	return err
}

// shiftDue moves the due time of one job.
func (a *Admin) shiftDue(ctx context.Context, topic, id, shift string) error {
	d, err := parseShift(shift)
	if err != nil {
		return err
	}
	job, err := a.queue.Get(ctx, topic, id)
	if err != nil {
		return err
	}
	due := job.DueAt.Add(d)
	_, err = a.queue.Change(ctx, topic, id, queue.Change{DueAt: &due})
	return err
}
