package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Schedules reads and changes schedules.
type Schedules interface {
	Get(ctx context.Context, name string) (*recurring.View, error)
	List(ctx context.Context, wanted func(*registry.Schedule) bool, after string, limit int) (
		list []recurring.View, next string)
	Put(ctx context.Context, actor string, def registry.Schedule, may func(was *registry.Schedule) error) (
		stored *registry.Schedule, created bool, err error)
	Delete(ctx context.Context, actor, name string) error
	Pause(ctx context.Context, actor, name string, until time.Time) (*registry.Schedule, error)
	Resume(ctx context.Context, actor, name string, catchUp bool) (*registry.Schedule, error)
	Run(ctx context.Context, name string) (*store.Job, error)
	Backfill(ctx context.Context, name string, b recurring.Backfill) (*recurring.Backfilled, error)
}

const (
	maxScheduleBytes = 512 << 10 // with its body
	schedulesPage    = 100
	maxSchedules     = 1000 // in a list
)

// onSchedule returns a route with a schedule in its path, on whose topic the token must have rights. Without any right
// on its topic, the schedule does not exist for the token.
func (s *Server) onSchedule(h handler, rights ...registry.Right) echo.HandlerFunc {
	return s.onAnyTopic(rights[0], func(c *call) error {
		name, err := pathText(c, "schedule")
		if err != nil {
			return err
		}
		if c.schedule = s.registry.Snapshot().Schedules.Get(name); c.schedule == nil {
			s.registry.Refresh(c.ctx()) // another server may just have stored it
			c.schedule = s.registry.Snapshot().Schedules.Get(name)
		}
		if c.schedule == nil || !slices.ContainsFunc(registry.Rights, func(r registry.Right) bool {
			return c.token.Allows(r, c.schedule.Topic)
		}) {
			return notFound(codeScheduleNotFound, "no schedule %q", clip(name))
		}
		for _, right := range rights {
			if err := allow(c.token, right, c.schedule.Topic); err != nil {
				return err
			}
		}
		return h(c)
	})
}

// scheduleView is what is told about a schedule: its definition, and what becomes of it.
type scheduleView struct {
	registry.Schedule
	Next        []time.Time      `json:"next"`
	Last        []occurrenceView `json:"last,omitzero"` // newest first; nil: unknown
	LeftOut     map[string]int   `json:"left_out,omitzero"`
	Unavailable []string         `json:"unavailable,omitzero"`
}

type occurrenceView struct {
	ID           string      `json:"id"`
	ScheduledFor time.Time   `json:"scheduled_for"`
	State        store.State `json:"state"`
}

func (s *Server) viewOfSchedule(v *recurring.View) *scheduleView {
	d := *v.Schedule
	d.Revision, d.MadeBy = 0, 0
	if !d.IsPaused(s.opts.Now()) {
		d.State, d.PausedUntil = registry.TopicActive, time.Time{}
	}
	view := &scheduleView{Schedule: d, Next: v.Next}
	if v.Cursor == nil {
		view.Unavailable = []string{d.Shard}
		return view
	}
	view.Last, view.LeftOut = []occurrenceView{}, v.Cursor.LeftOut
	for _, o := range slices.Backward(v.Cursor.Last) {
		view.Last = append(view.Last, occurrenceView{o.ID, time.UnixMilli(o.For).UTC(), o.State})
	}
	return view
}

func (s *Server) getSchedule(c *call) error {
	return s.answerSchedule(c, http.StatusOK, c.schedule.Name)
}

func (s *Server) answerSchedule(c *call, status int, name string) error {
	v, err := s.opts.Schedules.Get(c.ctx(), name)
	if err != nil {
		return err
	}
	return s.answer(c, status, s.viewOfSchedule(v))
}

// listSchedules lists a page. The cursor is the name of the last schedule on the page before.
func (s *Server) listSchedules(c *call) error {
	limit, err := c.limitOf(schedulesPage, maxSchedules)
	if err != nil {
		return err
	}
	topic := c.query.Get("topic")
	wanted := func(d *registry.Schedule) bool {
		return (topic == "" || d.Topic == topic) && c.token.Allows(mayRead, d.Topic)
	}
	list, next := s.opts.Schedules.List(c.ctx(), wanted, c.query.Get("cursor"), limit)
	views := make([]*scheduleView, len(list))
	for i := range list {
		views[i] = s.viewOfSchedule(&list[i])
	}
	return s.answer(c, http.StatusOK, map[string]any{"schedules": views, "next": next})
}

func (s *Server) putSchedule(c *call) error {
	name, err := pathText(c, "schedule")
	if err != nil {
		return err
	}
	return s.withBody(c, maxScheduleBytes, func(body *buffer) error {
		def, err := registry.DecodeSchedule(name, body.b)
		if err != nil {
			return err
		}
		if err := s.mayStore(c, def); err != nil {
			return err
		}
		def.MadeBy = c.token.ID
		_, created, err := s.opts.Schedules.Put(c.editing(), c.actor(), *def, func(was *registry.Schedule) error {
			return s.mayReplace(c, def, was)
		})
		if err != nil {
			return err
		}
		status := http.StatusOK
		if created {
			status = http.StatusCreated
			c.Response().Header().Set(echo.HeaderLocation, "/v1/schedules/"+name)
		}
		return s.answerSchedule(c, status, name)
	})
}

// mayStore checks the rights on the topic of a definition, and what the topic's jobs may have.
func (s *Server) mayStore(c *call, def *registry.Schedule) error {
	topic, err := s.topic(c, def.Topic, maySchedule)
	if err != nil {
		return err
	}
	if registry.IsNamespace(topic.Name) {
		return badField("topic", "%s is a namespace; push to a topic in it", topic.Name)
	}
	return cmp.Or(allow(c.token, mayPush, def.Topic), checkSize(def.Body, s.limits.MaxBody))
}

// mayReplace checks the rights on the topic of the definition before, and the limit of the token for a new one.
func (s *Server) mayReplace(c *call, def, was *registry.Schedule) error {
	if was != nil {
		if !c.token.Allows(maySchedule, was.Topic) || !c.token.Allows(mayPush, was.Topic) {
			return conflict(codeScheduleExists, "a schedule %s already exists, of a topic that token %s may not use",
				def.Name, clip(c.token.Name))
		}
		return nil
	}
	n := 0
	for _, d := range s.registry.Snapshot().Schedules.All() {
		if d.MadeBy == c.token.ID {
			n++
		}
	}
	if n >= s.limits.MaxSchedules {
		return conflict(codeScheduleLimit, "token %s has made %d schedules, as many as schedules.per_token allows",
			clip(c.token.Name), n)
	}
	return nil
}

func (s *Server) deleteSchedule(c *call) error {
	if err := s.opts.Schedules.Delete(c.editing(), c.actor(), c.schedule.Name); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *Server) pauseSchedule(c *call) error {
	var r struct {
		Until field[pauseEnd] `json:"until"`
	}
	return s.changeSchedule(c, &r, func(ctx context.Context, name string) (err error) {
		var until time.Time
		if r.Until.given {
			if until, err = r.Until.value.after(s.opts.Now()); err != nil {
				return err
			}
		}
		_, err = s.opts.Schedules.Pause(ctx, c.actor(), name, until)
		return err
	})
}

// changeSchedule reads a request that may be empty, makes the change and answers with the schedule.
func (s *Server) changeSchedule(c *call, request any, change func(ctx context.Context, name string) error) error {
	return s.withOptionalBody(c, request, func() error {
		if err := change(c.editing(), c.schedule.Name); err != nil {
			return err
		}
		return s.answerSchedule(c, http.StatusOK, c.schedule.Name)
	})
}

func (s *Server) resumeSchedule(c *call) error {
	var r struct {
		CatchUp field[bool] `json:"catch_up"`
	}
	return s.changeSchedule(c, &r, func(ctx context.Context, name string) error {
		_, err := s.opts.Schedules.Resume(ctx, c.actor(), name, r.CatchUp.value)
		return err
	})
}

func (s *Server) runSchedule(c *call) error {
	job, err := s.opts.Schedules.Run(c.editing(), c.schedule.Name)
	if err != nil {
		return err
	}
	c.Response().Header()[echo.HeaderLocation] = []string{jobPath(job.Topic, job.ID)}
	return s.answer(c, http.StatusCreated, &struct {
		Topic string `json:"topic"`
		ID    string `json:"id"`
	}{job.Topic, job.ID})
}

type backfillRequest struct {
	From    field[moment] `json:"from"`
	To      field[moment] `json:"to"`
	Overlap field[string] `json:"overlap"`
	DryRun  field[bool]   `json:"dry_run"`
}

func (s *Server) backfillSchedule(c *call) error {
	return s.withBody(c, maxGroupBytes, func(body *buffer) error {
		var r backfillRequest
		if err := decode(body.b, &r); err != nil {
			return err
		}
		done, err := s.opts.Schedules.Backfill(c.editing(), c.schedule.Name, recurring.Backfill{
			From: time.Time(r.From.value), To: time.Time(r.To.value), Overlap: registry.Overlap(r.Overlap.value),
			DryRun: r.DryRun.value,
		})
		if err != nil {
			return err
		}
		return s.answer(c, http.StatusOK, done)
	})
}
