package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/journal/search"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/internal/store"
)

func (h *Handler) jobRoutes(g *echo.Group) {
	g.GET("/topics/:topic/jobs/:id", h.jobPage)
	g.GET("/topics/:topic/jobs/:id/waits", h.waitsPart)
	g.POST("/topics/:topic/jobs/:id", page.Need(account.RoleOperator, h.actOnOne))
	g.GET("/search", h.searchPage)
	g.GET("/search/journal", h.journalPart)
}

type jobData struct {
	*store.Job
	Body, Kind string // json, text or hex
	Cut        bool   // the body is longer than shown
	Size       int
	Max        int
	Curl       string
	Mark       string // identifies the state that the page shows
	Leased     bool   // leased by a worker of a pull topic
	Waiting    waiting
	Timeline   *journalData
}

// ByHand reports whether the job is of a schedule, but no occurrence: somebody ran the schedule.
func (d *jobData) ByHand() bool { return strings.HasPrefix(d.ID, d.Schedule+"!") }

// TraceID returns the trace of the push; empty if it had none.
func (d *jobData) TraceID() string {
	_, rest, _ := strings.Cut(d.Traceparent, "-")
	id, _, _ := strings.Cut(rest, "-")
	return id
}

const bodyShown = 64 << 10

// markOf fingerprints what the page of a job shows.
func markOf(j *store.Job) string {
	return fmt.Sprintf("%s-%d-%d-%d", j.State, j.Attempts, len(j.History), j.DueAt.UnixMilli())
}

// jobPage shows a job. The page polls every second with the mark of what it shows, and replaces itself after a change,
// but keeps the message about the last action.
func (h *Handler) jobPage(c echo.Context) error {
	topic, id := page.Param(c, "topic"), page.Param(c, "id")
	job, err := h.Queue.Get(c.Request().Context(), topic, id, store.Finished)
	polls := page.IsFragment(c) && c.QueryParam("was") != ""
	switch {
	case polls && errors.Is(err, store.ErrNotFound):
		return h.Pages.Fragment(c, "job#over", nil)
	case err != nil:
		return h.gonePage(c, topic, id, err)
	case polls && c.QueryParam("was") == markOf(job):
		return c.NoContent(http.StatusNoContent)
	}
	d := &jobData{Job: job, Size: len(job.Body), Max: job.MaxAttempts, Mark: markOf(job)}
	if t := h.Registry.Snapshot().Topic(topic); t != nil {
		d.Max = cmp.Or(d.Max, t.MaxAttempts)
	}
	d.Waiting = h.newWaiting(c.Request().Context(), job)
	d.Leased = job.State == store.Running && h.isPull(topic)
	d.Body, d.Kind, d.Cut = ShownBody(job.Body)
	d.Timeline = h.journalOf(c, nil, search.Query{ID: id, Topic: topic}, job)
	if job.State != store.Finished && page.May(c, account.RoleOperator) { // whoever sees it can call the endpoint
		if sent := h.request(c, job); sent != nil {
			d.Curl = sent.Curl()
		}
	}
	if polls {
		c.Response().Header().Set("HX-Reswap", "none") // swap only the parts that the answer names
		return h.Pages.Parts(c, "job", d)
	}
	return h.Pages.Render(c, http.StatusOK, "job", d)
}

// request returns the job's next callback, signed; nil if it cannot be built.
func (h *Handler) request(c echo.Context, job *store.Job) *callback.Sent {
	t := h.Registry.Snapshot().Topic(job.Topic)
	if t == nil {
		return nil
	}
	e, err := EndpointOf(t)
	if err != nil {
		return nil
	}
	most := cmp.Or(job.MaxAttempts, t.MaxAttempts)
	attempt := job.Attempts + 1
	if job.State == store.Dead { // it is called again only after a re-drive, with all its attempts
		attempt = 1
	}
	sent, err := h.Caller.Describe(e, &callback.Request{
		Topic: job.Topic, ID: job.ID, URL: job.URL, Body: job.Body, ContentType: job.ContentType,
		Priority: job.Priority.String(), Attempt: attempt, MaxAttempts: most, DueAt: job.DueAt,
		CreatedAt: job.CreatedAt, Headers: job.CallHeaders(),
	})
	if err != nil {
		return nil
	}
	MaskSent(c, sent, t, job.URL != "")
	return sent
}

// MaskSent hides the secrets of a topic in a request that is shown to a user who may not edit the topic. ownURL: its
// URL is the job's own.
func MaskSent(c echo.Context, sent *callback.Sent, t *registry.Topic, ownURL bool) {
	if page.May(c, account.RoleAdmin) {
		return
	}
	masked := t.Masked()
	for name, value := range masked.Headers {
		if _, has := sent.Header[name]; has && t.Seals(name) {
			sent.Header[name] = []string{value}
		}
	}
	if masked.CallbackURL != t.CallbackURL && !ownURL {
		sent.URL = masked.CallbackURL // without the parameters that a GET adds
	}
}

// ShownBody formats a body for people: JSON indented and without needless escapes, other text unchanged, anything else
// in hex.
func ShownBody(body []byte) (text, kind string, cut bool) {
	if cut = len(body) > bodyShown; cut {
		body = body[:bodyShown]
	}
	var pretty bytes.Buffer
	if !cut && json.Indent(&pretty, body, "", "  ") == nil {
		return page.Unescaped(pretty.String()), "json", false
	}
	for cut && len(body) > 0 && !utf8.Valid(body[max(0, len(body)-utf8.UTFMax):]) {
		body = body[:len(body)-1]
	}
	if utf8.Valid(body) && !bytes.ContainsRune(body, 0) {
		return page.Unescaped(string(body)), "text", cut
	}
	return hex.Dump(body), "hex", cut
}

func (h *Handler) actOnOne(c echo.Context) error {
	topic, id, do := page.Param(c, "topic"), page.Param(c, "id"), c.FormValue("do")
	if err := h.actOnJob(c, topic, id, do); err != nil {
		if isFieldError(err) || isJobRefusal(err) {
			h.Flashes.AddError(c, err)
			return h.Pages.Redirect(c, h.Pages.Below("/topics", topic, "jobs", id))
		}
		return err
	}
	h.Flashes.Add(c, "success", "job.done_"+do, id)
	if do == "delete" {
		return h.Pages.Redirect(c, h.Pages.Below("/topics", topic)+"?tab=jobs")
	}
	return h.Pages.Redirect(c, h.Pages.Below("/topics", topic, "jobs", id))
}

// isPull reports whether the topic, which may belong to a namespace, is a pull topic.
func (h *Handler) isPull(topic string) bool {
	t := h.Registry.Snapshot().Topic(topic)
	return t != nil && t.Delivery == registry.DeliveryPull
}

// endLease ends a worker's lease on a job.
func (h *Handler) endLease(c echo.Context, topic, id string, verb store.Verb) error {
	if !h.isPull(topic) {
		return fmt.Errorf("%s is called by a dispatcher: %w", id, store.ErrRunning)
	}
	e := store.End{Ref: store.Ref{Topic: topic, ID: id}, Verb: verb}
	if verb == store.Bury {
		e.Attempt = &store.Attempt{Error: "buried by " + page.Actor(c)}
	}
	return h.Queue.End(c.Request().Context(), []store.End{e})[0].Err
}

// actOnJob performs one action on one job: run, delete, resend, due (another time), probe (its endpoint), or, on a job
// leased by a worker, release or bury.
func (h *Handler) actOnJob(c echo.Context, topic, id, do string) error {
	ctx := c.Request().Context()
	switch do {
	case "run":
		_, err := h.Queue.RunNow(ctx, topic, id, nil)
		return err
	case "delete":
		return h.Queue.Delete(ctx, topic, id, nil)
	case "resend":
		_, err := h.Queue.Resend(ctx, topic, id)
		return err
	case "release":
		return h.endLease(c, topic, id, store.Release)
	case "bury":
		return h.endLease(c, topic, id, store.Bury)
	case "probe":
		_, err := h.Queue.ProbeNow(ctx, topic)
		return err
	case "due":
		return h.changeDue(ctx, topic, id, c.FormValue("delay"), c.FormValue("due_at"), page.Zone(c))
	}
	return echo.NewHTTPError(http.StatusBadRequest, fmt.Sprintf("there is no action %.40q", do))
}

func (h *Handler) changeDue(ctx context.Context, topic, id, delay, at string, zone *time.Location) error {
	due, after, err := readWhen(at, delay, zone)
	change := store.Change{Delay: &after}
	if at != "" {
		change = store.Change{DueAt: &due}
	}
	if err == nil {
		_, err = h.Queue.Change(ctx, topic, id, change)
	}
	return err
}

func isFieldError(err error) bool {
	var f *registry.FieldError
	return errors.As(err, &f)
}

// isJobRefusal reports whether the queue answered that the action is not possible for this job.
func isJobRefusal(err error) bool {
	return errors.Is(err, store.ErrRunning) || errors.Is(err, store.ErrDead) || errors.Is(err, store.ErrTooFar) ||
		errors.Is(err, store.ErrAlive) || errors.Is(err, store.ErrBodyGone) ||
		errors.Is(err, store.ErrState) || errors.Is(err, store.ErrExpires) || errors.Is(err, store.ErrClosed)
}

func EndpointOf(t *registry.Topic) (*callback.Endpoint, error) {
	if t.Locked {
		return nil, seal.ErrKey
	}
	return callback.CompileEndpoint(callback.EndpointSpec{
		URL: t.CallbackURL, Method: t.Method, ContentType: t.ContentType, Headers: t.Headers, Fixed: t.Seals,
		RetryIf: t.RetryIf, Secrets: t.Secrets, Dialect: t.Dialect, CloudEvents: t.CloudEvents,
	})
}
