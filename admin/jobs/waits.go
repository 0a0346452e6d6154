package jobs

import (
	"context"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/waits"
)

// Waiting reads why jobs wait, and lets a breaker send its next probe.
type Waiting interface {
	waits.Queue
	DownFor(topic, id string) (shards []string)
	ProbeNow(ctx context.Context, topic string) error
}

// waiting is the part of a job's page that says why it waits. It changes while the job itself does not.
type waiting struct {
	Topic, ID string
	Settings  string // the name of the topic's settings: the topic's, or its namespace's
	State     string // of the topic
	Waits     []waits.Wait
}

// newWaiting returns why a job waits.
func (h *Handler) newWaiting(ctx context.Context, j *queue.Job) waiting {
	s := h.Registry.Snapshot()
	w := waiting{Topic: j.Topic, ID: j.ID, Waits: waits.Find(ctx, h.Queue, s, j)}
	if t := s.Topic(j.Topic); t != nil {
		w.Settings, w.State = t.Name, string(t.State)
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

// downFor returns, as a reason to wait, the shards that may have a job and do not answer.
func (h *Handler) downFor(topic, id string, err error) []waits.Wait {
	down := h.Queue.DownFor(topic, id)
	if len(down) == 0 {
		return nil
	}
	return []waits.Wait{{Reason: waits.ShardDown, Shard: strings.Join(down, ", "), Error: err.Error()}}
}
