package jobs

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/waits"
	"github.com/wakecall/wakecall/internal/store"
)

// Waiting reads why jobs wait, and lets a breaker send its next probe.
type Waiting interface {
	waits.Queue
	DownFor(topic, id string) (shards []string)
	TopicLimits(ctx context.Context, topics []string) (map[string]observe.TopicLimits, error)
	ProbeNow(ctx context.Context, topic string) (open bool, err error)
}

// waiting is the part of a job's page that says why the job waits. It may change while the job does not.
type waiting struct {
	Topic, ID string
	Settings  string // the name of the topic's settings: the topic's, or its namespace's
	State     string // of the topic
	Waits     []waits.Wait
	Held      *held // what happens if the job is made due now
}

// held says that jobs that become due wait behind open breakers.
type held struct {
	Topics []string
	Probe  time.Time // the next one
}

// heldOf returns nil if no breaker of the topics is open. One whose probe is due calls the next due job.
func (h *Handler) heldOf(ctx context.Context, topics []string) *held {
	limits, _ := h.Queue.TopicLimits(ctx, topics[:min(len(topics), fewTopics)]) // shards that do not answer say nothing
	var b held
	for _, name := range page.SortedKeys(limits) {
		if probe := limits[name].BreakerOpen; probe.After(h.Now()) {
			b.Topics = append(b.Topics, name)
			if b.Probe.IsZero() || probe.Before(b.Probe) {
				b.Probe = probe
			}
		}
	}
	if b.Topics == nil {
		return nil
	}
	return &b
}

// newWaiting returns why a job waits.
func (h *Handler) newWaiting(ctx context.Context, j *store.Job) waiting {
	s := h.Registry.Snapshot()
	w := waiting{Topic: j.Topic, ID: j.ID, Waits: waits.Find(ctx, h.Queue, s, j)}
	if t := s.Topic(j.Topic); t != nil {
		w.Settings, w.State = t.Name, string(t.State)
	}
	if j.State == store.Delayed || j.State == store.Dead {
		w.Held = h.heldOf(ctx, []string{j.Topic})
	}
	return w
}

// waitsPart answers the poll of the part of a job's page that says why it waits.
func (h *Handler) waitsPart(c echo.Context) error {
	job, err := h.Queue.Get(c.Request().Context(), page.Param(c, "topic"), page.Param(c, "id"))
	if err != nil {
		return c.NoContent(http.StatusNoContent) // the page itself says so
	}
	return h.Pages.Fragment(c, "partials/waits", h.newWaiting(c.Request().Context(), job))
}

// gonePage shows what the journals know of a job that no shard has, or whose shard does not answer.
func (h *Handler) gonePage(c echo.Context, topic, id string, err error) error {
	var away *store.UnavailableError
	d, status := waiting{Topic: topic, ID: id}, http.StatusNotFound
	if down := h.Queue.DownFor(topic, id); errors.As(err, &away) && len(down) > 0 {
		status = http.StatusServiceUnavailable
		d.Waits = []waits.Wait{{
			Reason: waits.ShardDown, Shard: strings.Join(down, ", "), Error: h.Texts.Explain(c, err),
		}}
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return h.Pages.Render(c, status, "job_gone", d)
}
