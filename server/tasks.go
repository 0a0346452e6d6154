package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Tasks starts, reads and cancels tasks: actions on all jobs that match a filter.
type Tasks interface {
	Start(ctx context.Context, actor string, p bulk.Params) (uint64, error)
	GetTask(ctx context.Context, id uint64) (*bulk.Task, error)
	ListTasks(ctx context.Context, limit int) ([]bulk.Task, error)
	CancelTask(ctx context.Context, actor string, id uint64) error
}

const (
	maxTaskBytes = 16 << 10
	maxTasks     = 1000 // in a list; no more are kept
	maxTaskRate  = 100_000
)

// onTask returns a route with a task in its path. A task of topics beyond the token's does not exist for the token.
func (s *Server) onTask(h handler) echo.HandlerFunc {
	return s.onAnyTopic(mayManage, func(c *call) error {
		missing := notFound(codeTaskNotFound, "no task %q; GET /v1/tasks lists them", clip(c.Param("task")))
		id, err := strconv.ParseUint(c.Param("task"), 10, 63)
		if err != nil {
			return missing
		}
		c.task, err = s.opts.Tasks.GetTask(c.ctx(), id)
		switch {
		case errors.Is(err, bulk.ErrNoTask), err == nil && !seesTask(c.token, c.task):
			return missing
		case err != nil:
			return err
		}
		return h(c)
	})
}

// allowTask refuses tasks on topics, a name or a pattern, on which the token does not have the rights that they need.
func allowTask(token *registry.Token, topics string) error {
	return cmp.Or(allow(token, mayManage, topics), allow(token, mayRead, topics))
}

func seesTask(token *registry.Token, t *bulk.Task) bool {
	return allowTask(token, cmp.Or(t.Params.Filter.Topic, "*")) == nil
}

// taskFilterView is the filter of a task. Its fields are those of taskFilter.
type taskFilterView struct {
	Topic     string      `json:"topic"`
	State     store.State `json:"state"`
	IDPrefix  string      `json:"id_prefix,omitzero"`
	IDPart    string      `json:"id_part,omitzero"` // only in the admin
	Error     string      `json:"error,omitzero"`
	Status    int         `json:"status,omitzero"`
	Reason    string      `json:"reason,omitzero"`
	DueAfter  time.Time   `json:"due_after,omitzero"`
	DueBefore time.Time   `json:"due_before,omitzero"`
	Since     time.Time   `json:"since,omitzero"`
	Until     time.Time   `json:"until,omitzero"`
}

type taskView struct {
	ID        string           `json:"id"`
	Action    string           `json:"action"`
	Filter    taskFilterView   `json:"filter"`
	By        string           `json:"by,omitzero"`
	Change    *taskChangeView  `json:"change,omitzero"`
	Rate      float64          `json:"rate,omitzero"`
	StopAbove float64          `json:"stop_above,omitzero"`
	DryRun    bool             `json:"dry_run,omitzero"`
	State     string           `json:"state"`
	Matched   int64            `json:"matched"`
	Done      int64            `json:"done"`
	Skipped   map[string]int64 `json:"skipped"`
	Failed    int64            `json:"failed"`
	Again     int64            `json:"failed_again,omitzero"`
	Error     string           `json:"error,omitzero"`
	StartedBy string           `json:"started_by"`
	CreatedAt time.Time        `json:"created_at"`
	UpdatedAt time.Time        `json:"updated_at"`
	Cancelled bool             `json:"cancel_requested,omitzero"`
}

type taskChangeView struct {
	DueAt    time.Time `json:"due_at,omitzero"`
	Priority string    `json:"priority,omitzero"`
}

func viewOfTask(t *bulk.Task) *taskView {
	p, r := &t.Params, t.Params.Result
	v := &taskView{
		ID: strconv.FormatUint(t.ID, 10), Action: p.Do, Filter: viewOfFilter(p.Filter), Rate: p.Rate,
		StopAbove: p.StopAbove, DryRun: p.DryRun, State: t.State, Matched: t.Total, Done: r.Done, Failed: r.Failed,
		Skipped: map[string]int64{"running": r.Running, "gone": r.Gone, "changed": r.Moved}, Again: t.Errors,
		Error: cmp.Or(t.Error, r.Error), StartedBy: t.Actor, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
		Cancelled: t.CancelRequested,
	}
	if why := t.Why(); why != nil {
		v.Error = why.Error()
	}
	switch {
	case p.Do != bulk.Due:
	case p.Shift != 0:
		v.Action, v.By = "shift", p.Shift.String()
	default:
		v.Action, v.Change = "change", &taskChangeView{p.At, p.Priority}
	}
	return v
}

func viewOfFilter(f bulk.Filter) taskFilterView {
	v := taskFilterView{
		Topic: cmp.Or(f.Topic, "*"), State: f.State, Error: f.Error, Status: f.Status, Reason: f.Reason,
		IDPrefix: f.Prefix(),
	}
	if v.IDPrefix == "" {
		v.IDPart = strings.TrimPrefix(f.ID, "^")
	}
	if f.State == store.Dead {
		v.Since, v.Until = f.Since, f.Until
		return v
	}
	v.DueAfter, v.DueBefore = f.Since, f.Until
	return v
}

func (s *Server) getTask(c *call) error { return s.answer(c, http.StatusOK, viewOfTask(c.task)) }

// listTasks lists the tasks of the token's topics, newest first.
func (s *Server) listTasks(c *call) error {
	limit, err := c.limitOf(100, maxTasks)
	if err != nil {
		return err
	}
	list, err := s.opts.Tasks.ListTasks(c.ctx(), maxTasks)
	if err != nil {
		return err
	}
	views := []*taskView{}
	for i := range list {
		if len(views) < limit && seesTask(c.token, &list[i]) {
			views = append(views, viewOfTask(&list[i]))
		}
	}
	return s.answer(c, http.StatusOK, map[string]any{"tasks": views})
}

// cancelTask asks for the end of a task. What it has done stays.
func (s *Server) cancelTask(c *call) error {
	if !c.task.Open() {
		return s.getTask(c)
	}
	if err := s.opts.Tasks.CancelTask(c.editing(), c.actor(), c.task.ID); err != nil {
		return err
	}
	c.task.CancelRequested = true
	return s.answer(c, http.StatusAccepted, viewOfTask(c.task))
}

// taskRequest starts a task.
type taskRequest struct {
	Action    field[string]             `json:"action"`
	Filter    field[object[taskFilter]] `json:"filter"`
	By        field[shift]              `json:"by"`
	Change    field[object[taskChange]] `json:"change"`
	Rate      field[float64]            `json:"rate"`
	StopAbove field[float64]            `json:"stop_above"`
	DryRun    field[bool]               `json:"dry_run"`
}

// taskFilter selects jobs. due_after and due_before are for jobs that wait, since and until for dead ones.
type taskFilter struct {
	outcomeFilter
	Topic     field[string] `json:"topic"`
	State     field[string] `json:"state"`
	IDPrefix  field[string] `json:"id_prefix"`
	DueAfter  field[moment] `json:"due_after"`
	DueBefore field[moment] `json:"due_before"`
}

// taskChange is what the action change gives each job.
type taskChange struct {
	DueAt    field[moment]   `json:"due_at"`
	Priority field[priority] `json:"priority"`
}

// taskStates are the states in which an action finds its jobs if the filter names none.
var taskStates = map[string]store.State{bulk.Run: store.Delayed, bulk.Retry: store.Dead}

func (s *Server) startTask(c *call) error {
	return s.withBody(c, maxTaskBytes, func(body *buffer) error {
		var r taskRequest
		if err := decode(body.b, &r); err != nil {
			return err
		}
		p, err := r.params()
		if err != nil {
			return err
		}
		if err := allowTask(c.token, p.Filter.Topic); err != nil {
			return err
		}
		if !strings.HasSuffix(p.Filter.Topic, "*") {
			if _, err := s.topic(c, p.Filter.Topic, mayManage); err != nil {
				return err
			}
		}
		key, err := c.idempotencyKey(p.Shift != 0)
		if err != nil {
			return err
		}
		if key != "" {
			p.Key = strconv.FormatUint(c.token.ID, 10) + ":" + key // names of tokens may be used twice
		}
		id, err := s.opts.Tasks.Start(c.editing(), c.actor(), p)
		if err != nil {
			return taskProblem(err)
		}
		t, err := s.opts.Tasks.GetTask(c.ctx(), id)
		if err != nil {
			return err
		}
		c.Response().Header().Set(echo.HeaderLocation, "/v1/tasks/"+strconv.FormatUint(id, 10))
		return s.answer(c, http.StatusCreated, viewOfTask(t))
	})
}

func taskProblem(err error) error {
	var m message.Message
	if !errors.As(err, &m) {
		return err
	}
	switch m.Code {
	case "task.overlaps":
		return conflict(codeTaskOverlaps, "%s", m.Error())
	case "task.too_many":
		return conflict(codeTaskLimit, "%s", m.Error())
	case "task.key_used":
		return outOfRange("Idempotency-Key", "%s", m.Error())
	}
	return badField("action", "%s", m.Error())
}

func (r *taskRequest) params() (p bulk.Params, err error) {
	if p.Action, err = r.action(); err != nil {
		return p, err
	}
	if p.Filter, err = r.Filter.value.is.of(taskStates[p.Do]); err != nil {
		return p, err
	}
	p.DryRun, p.Rate, p.StopAbove, p.Staged = r.DryRun.value, r.Rate.value, r.StopAbove.value, r.StopAbove.given
	switch {
	case r.Rate.given && (p.Rate <= 0 || p.Rate > maxTaskRate):
		return p, outOfRange("rate", "must be above 0, and at most %d", maxTaskRate)
	case r.StopAbove.given && (p.StopAbove <= 0 || p.StopAbove >= 1):
		return p, outOfRange("stop_above", "must be a share between 0 and 1")
	case r.StopAbove.given && p.Do != bulk.Retry:
		return p, badField("stop_above", "only for the action retry, which has outcomes to wait for")
	}
	return p, nil
}

func (r *taskRequest) action() (a bulk.Action, err error) {
	a.Do = r.Action.value
	switch a.Do {
	case bulk.Run, bulk.Retry, bulk.Delete:
	case "shift":
		if a.Do, a.Shift = bulk.Due, time.Duration(r.By.value); a.Shift == 0 {
			return a, badField("by", "required with shift: how far to move each job, such as 30m or -10m")
		}
	case "change":
		change := &r.Change.value.is
		a.Do, a.At = bulk.Due, time.Time(change.DueAt.value)
		if change.Priority.given {
			a.Priority = store.Priority(change.Priority.value).String()
		}
		if a.At.IsZero() && a.Priority == "" {
			return a, badField("change", "required with change: due_at, priority, or both")
		}
	default:
		return a, badField("action", "must be one of run, retry, delete, shift, change")
	}
	if r.By.given && a.Shift == 0 {
		return a, badField("by", "only for the action shift")
	}
	if r.Change.given && r.Action.value != "change" {
		return a, badField("change", "only for the action change")
	}
	return a, nil
}

// of returns the filter; standard is its state if it names none.
func (f *taskFilter) of(standard store.State) (filter bulk.Filter, err error) {
	if filter, err = f.filter("id_prefix", f.IDPrefix); err != nil {
		return filter, err
	}
	if filter.Topic = f.Topic.value; filter.Topic == "" {
		return filter, badField("filter.topic", "required: the name of a topic, or a pattern such as shop.*")
	}
	if strings.HasSuffix(filter.Topic, "*") {
		if err := registry.ValidTopicPattern(filter.Topic); err != nil {
			return filter, badField("filter.topic", "%s is not a pattern of topics", clip(filter.Topic))
		}
	}
	if filter.State = cmp.Or(store.State(f.State.value), standard); filter.State == "" {
		return filter, badField("filter.state", "required: delayed, ready or dead")
	}
	waits := f.DueAfter.given || f.DueBefore.given
	switch died := f.Since.given || f.Until.given; {
	case waits && filter.State == store.Dead:
		return filter, badField("filter.due_before", "not for dead jobs; use since and until")
	case died && filter.State != store.Dead:
		return filter, badField("filter.since", "only for dead jobs; use due_after and due_before")
	case waits:
		filter.Since, filter.Until = time.Time(f.DueAfter.value), time.Time(f.DueBefore.value)
	}
	return filter, nil
}
