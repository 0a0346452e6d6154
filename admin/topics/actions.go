package topics

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// putState stores a topic with another state. It keeps changes of other hosts that this one may not have read yet.
func (h *Handler) putState(c echo.Context, t *registry.Topic, state registry.TopicState) error {
	put := func() error {
		next := *t
		next.State = state
		_, err := h.Editor.PutTopic(c.Request().Context(), page.Actor(c), next, registry.IfMatch(t.ETag()))
		return err
	}
	err := put()
	if !errors.Is(err, registry.ErrChanged) {
		return err
	}
	h.Registry.Refresh(c.Request().Context())
	if t, err = page.TopicOf(c, h.Registry); err != nil {
		return err
	}
	return put()
}

// asShown wraps a change of the secrets that the page showed. It fails if the topic, and so perhaps its secrets, has
// changed since.
func (h *Handler) asShown(change func(echo.Context, *registry.Topic) error) func(echo.Context, *registry.Topic) error {
	return func(c echo.Context, t *registry.Topic) error {
		if etag := c.FormValue("etag"); etag != "" && etag != t.ETag() {
			h.Flashes.Add(c, "danger", "topic.changed", t.Name)
			return h.Pages.Redirect(c, h.Pages.Below("/topics", t.Name))
		}
		return change(c, t)
	}
}

// inState wraps a change of the state that the page showed. It fails if the state has changed since: a user who pauses
// an active topic does not mean to undo somebody else's change to offline.
func (h *Handler) inState(change func(echo.Context, *registry.Topic) error) func(echo.Context, *registry.Topic) error {
	return func(c echo.Context, t *registry.Topic) error {
		if was := c.FormValue("was"); was != "" && was != string(t.State) {
			h.Flashes.Add(c, "danger", "topic.changed", t.Name)
			return h.Pages.Redirect(c, h.Pages.Below("/topics", t.Name))
		}
		return change(c, t)
	}
}

func (h *Handler) pauseTopic(c echo.Context, t *registry.Topic) error {
	ctx, actor, reason := c.Request().Context(), page.Actor(c), strings.TrimSpace(c.FormValue("reason"))
	err := h.Registry.PauseTopic(ctx, actor, t.Name, registry.Pause{Reason: reason})
	if fields, rest := h.Texts.FieldErrors(c, err); err != nil && rest == nil { // a pause may be urgent
		h.Flashes.AddText(c, "warning", fields["reason"])
		err = h.Registry.PauseTopic(ctx, actor, t.Name, registry.Pause{})
	}
	if err != nil {
		return err
	}
	h.Flashes.Add(c, "success", "topic.paused", t.Name)
	return h.Pages.Back(c, "/topics")
}

func (h *Handler) setTopicState(state registry.TopicState, done string) func(echo.Context, *registry.Topic) error {
	return func(c echo.Context, t *registry.Topic) error {
		if err := h.putState(c, t, state); err != nil {
			return err
		}
		h.Flashes.Add(c, "success", done, t.Name)
		return h.Pages.Back(c, "/topics")
	}
}

// overlaps are the choices for how long two secrets sign side by side.
var overlaps = []time.Duration{time.Hour, 24 * time.Hour, 3 * 24 * time.Hour, 7 * 24 * time.Hour}

// rotateSecret puts a new secret before the current one: callbacks carry both signatures until the old one is dropped.
func (h *Handler) rotateSecret(c echo.Context, t *registry.Topic) error {
	until, err := h.overlapEnds(c)
	if err != nil {
		return err
	}
	secret := newSigningSecret()
	if err := h.Secrets.RotateSecret(c.Request().Context(), page.Actor(c), t.Name, secret, until); err != nil {
		return err
	}
	if err := h.Flashes.KeepSecret(c, keySecretOf+t.Name, secret); err != nil {
		return err
	}
	return h.Pages.Redirect(c, h.Pages.Below("/topics", t.Name))
}

// overlapEnds returns when to drop an old secret, from the form's span of time.
func (h *Handler) overlapEnds(c echo.Context) (time.Time, error) {
	overlap, err := time.ParseDuration(cmp.Or(c.FormValue("overlap"), "24h"))
	if err != nil || overlap <= 0 {
		return time.Time{}, echo.NewHTTPError(http.StatusBadRequest,
			fmt.Sprintf("overlap: %.40q is not a duration such as 24h", c.FormValue("overlap")))
	}
	return h.Now().Add(overlap), nil
}

// setOverlap sets how much longer the old secret signs.
func (h *Handler) setOverlap(c echo.Context, t *registry.Topic) error {
	until, err := h.overlapEnds(c)
	if err != nil {
		return err
	}
	if err := h.Secrets.SetRotation(c.Request().Context(), page.Actor(c), t.Name, until); err != nil {
		return err
	}
	return h.Pages.Redirect(c, h.Pages.Below("/topics", t.Name))
}

func (h *Handler) dropOldSecret(c echo.Context, t *registry.Topic) error {
	next := *t
	next.Secrets = t.Secrets[:min(1, len(t.Secrets))]
	_, err := h.Editor.PutTopic(c.Request().Context(), page.Actor(c), next, registry.IfMatch(t.ETag()))
	if err != nil {
		return err
	}
	h.Flashes.Add(c, "success", "topic.secret_dropped", t.Name)
	return h.Pages.Redirect(c, h.Pages.Below("/topics", t.Name))
}

// deleteTopic fails while schedules use the topic, or it has jobs, unless these are to be deleted, too.
func (h *Handler) deleteTopic(c echo.Context, t *registry.Topic) error {
	ctx := c.Request().Context()
	stats, err := h.Queue.Stats(ctx, []string{t.Name})
	if err != nil {
		return err
	}
	drop := c.FormValue("drop") != ""
	if jobs := stats[t.Name].Jobs(); jobs > 0 && !drop {
		h.Flashes.Add(c, "danger", "topic.has_jobs", t.Name, jobs)
		return h.Pages.Redirect(c, h.Pages.Below("/topics", t.Name))
	}
	remove := func() error { return h.Registry.DeleteTopic(ctx, page.Actor(c), t.Name, false) }
	h.Registry.Refresh(ctx)
	err = h.Registry.Snapshot().TopicInUse(t.Name) // before any job is dropped
	switch {
	case err != nil:
	case drop:
		err = store.EndTopic(ctx, h.Queue, t.Name, remove)
	default:
		err = remove()
	}
	if errors.As(err, new(*registry.TopicInUseError)) {
		h.Flashes.AddText(c, "danger", h.Texts.Explain(c, err))
		return h.Pages.Redirect(c, h.Pages.Below("/topics", t.Name))
	}
	if err != nil {
		return err
	}
	h.Flashes.Add(c, "success", "topic.deleted", t.Name)
	return h.Pages.Redirect(c, "/topics")
}

func (h *Handler) clearErrors(c echo.Context, t *registry.Topic) error {
	if err := h.Activity.ClearErrors(c.Request().Context(), t.Name); err != nil {
		return err
	}
	return h.Pages.Redirect(c, h.Pages.Below("/topics", t.Name)+"?tab=attempts")
}
