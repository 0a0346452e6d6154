package topics

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// probeNow lets an open breaker call one job now. It writes the audit trail first: a probe that cannot be audited is
// not made.
func (h *Handler) probeNow(c echo.Context, t *registry.Topic) error {
	ctx := c.Request().Context()
	if err := h.Registry.NoteProbe(ctx, page.Actor(c), t.Name); err != nil {
		return err
	}
	open, err := h.Queue.ProbeNow(ctx, t.Name)
	switch {
	case open: // on a shard that answered, if not on all
		h.Flashes.Add(c, "success", "topic.probed", t.Name)
	case err != nil:
		return err
	default:
		h.Flashes.Add(c, "info", "topic.not_open", t.Name)
	}
	return h.Pages.Redirect(c, h.Pages.Below("/topics", t.Name))
}

// lastAnswer returns the last attempt of a topic; nil: none is known.
func (h *Handler) lastAnswer(ctx context.Context, topic string) *activity.Attempt {
	list, err := h.Activity.Attempts(ctx, topic, 1)
	if len(list) == 0 || err != nil && !queue.IsPartial(err) {
		return nil
	}
	return &list[0]
}
