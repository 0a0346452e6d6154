package jobs

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func (h *Handler) pushRoutes(g *echo.Group) {
	g.GET("/push", page.Need(account.RoleOperator, func(c echo.Context) error {
		return h.pushPage(c, http.StatusOK,
			pushForm{Topic: c.QueryParam("topic"), Body: "{\n  \n}", OnDuplicate: "keep"}, nil)
	}))
	g.GET("/push/settings", page.Need(account.RoleOperator, func(c echo.Context) error {
		return h.Pages.Fragment(c, "push#settings", pushData{Settings: h.settings(pushForm{
			Topic: strings.TrimSpace(c.QueryParam("topic")), URL: strings.TrimSpace(c.QueryParam("url")),
			Delay:    c.QueryParam("delay"),
			DueAt:    c.QueryParam("due_at"),
			Priority: c.QueryParam("priority"), MaxAttempts: c.QueryParam("max_attempts"),
		})})
	}))
	g.POST("/push", page.Need(account.RoleOperator, h.pushJob))
}

type pushForm struct{ Topic, ID, Group, Key, URL, Body, Delay, DueAt, Priority, MaxAttempts, OnDuplicate string }

type pushData struct {
	Form     pushForm
	Errors   map[string]string
	Topics   []string
	Levels   []string
	Settings settings
}

// settings are the effective settings of the job: the form's, or else the topic's.
type settings struct {
	Own       pushForm
	Topic     *registry.Topic // nil if there is no such topic
	Namespace string          // whose settings the topic has
	Note      registry.TopicNote
}

func (h *Handler) settings(own pushForm) settings {
	known := h.Registry.Snapshot()
	s := settings{Own: own, Topic: known.Topic(own.Topic), Note: known.Notes.Get(own.Topic)}
	if ns := known.Namespace(own.Topic); ns != nil {
		s.Namespace, s.Note = ns.Name, known.Notes.Get(ns.Name)
	}
	return s
}

func (h *Handler) pushPage(c echo.Context, status int, f pushForm, wrong map[string]string) error {
	return h.Pages.Render(c, status, "push", pushData{
		Form: f, Errors: wrong, Topics: page.TopicNames(h.Registry), Levels: []string{"high", "normal", "low"},
		Settings: h.settings(f),
	})
}

func (h *Handler) pushJob(c echo.Context) error {
	v := func(name string) string { return strings.TrimSpace(c.FormValue(name)) }
	f := pushForm{v("topic"), c.FormValue("id"), c.FormValue("group"), c.FormValue("key"), v("url"),
		c.FormValue("body"), v("delay"), v("due_at"), v("priority"), v("max_attempts"), v("on_duplicate")}
	p, err := h.pushOf(f, page.Zone(c))
	if err != nil {
		fields, rest := h.Texts.FieldErrors(c, err)
		if rest != nil {
			return rest
		}
		return h.pushPage(c, http.StatusUnprocessableEntity, f, fields)
	}
	r := h.Queue.Push(c.Request().Context(), *p)
	switch {
	case errors.Is(r.Err, store.ErrDuplicate):
		return h.pushPage(c, http.StatusConflict, f, map[string]string{"id": h.Texts.T(c, "push.duplicate", f.ID)})
	case errors.Is(r.Err, store.ErrClosed):
		return h.pushPage(c, http.StatusConflict, f, map[string]string{"group": h.Texts.Explain(c, r.Err)})
	case r.Err != nil:
		return r.Err
	case r.Duplicate:
		h.Flashes.Add(c, "info", "push.was_there", r.Job.ID)
	default:
		h.Flashes.Add(c, "success", "push.pushed", r.Job.ID)
	}
	return h.Pages.Redirect(c, h.Pages.Below("/topics", p.Topic, "jobs", r.Job.ID))
}

const maxID = 128

var duplicates = map[string]store.OnDuplicate{"": store.Keep, "keep": store.Keep, "replace": store.Replace,
	"error": store.Refuse}

// pushOf validates a form as the API validates a push.
func (h *Handler) pushOf(f pushForm, zone *time.Location) (*store.Push, error) {
	p := &store.Push{Topic: f.Topic, ID: f.ID, Group: f.Group, Key: f.Key, Body: []byte(strings.TrimSpace(f.Body))}
	var errs []error
	t := h.Registry.Snapshot().Topic(f.Topic)
	switch {
	case registry.IsNamespace(f.Topic):
		errs = append(errs, page.FieldError("topic", "field.is_namespace", f.Topic))
	case t == nil:
		errs = append(errs, page.FieldError("topic", "field.no_topic", f.Topic))
	case t.State == registry.TopicOffline:
		errs = append(errs, page.FieldError("topic", "field.offline", t.Name))
	}
	if t == nil {
		t = &registry.Topic{Priority: store.Normal.String(), Dialect: registry.DialectOwn}
	}
	if p.ID == "" {
		p.ID, p.Fresh = store.NewID(), true
	} else {
		errs = append(errs, validID("id", p.ID))
	}
	if p.Group != "" {
		errs = append(errs, validID("group", p.Group))
	}
	if p.Key != "" {
		errs = append(errs, validID("key", p.Key))
	}
	if f.URL != "" {
		url, err := t.JobURL(f.URL)
		p.URL, errs = url, append(errs, err)
	}
	if !json.Valid(p.Body) {
		errs = append(errs, page.FieldError("body", "topic.not_json"))
	} else if most := h.MaxBody; len(p.Body) > most {
		errs = append(errs, page.FieldError("body", "field.too_many_bytes", len(p.Body), most))
	}
	return p, errors.Join(append(errs, setWhen(p, f, t, zone), setLimits(p, f, t))...)
}

func validID(field, id string) error {
	if store.CheckID(id) != nil {
		return page.FieldError(field, "field.id", id, maxID)
	}
	return nil
}

func setWhen(p *store.Push, f pushForm, t *registry.Topic, zone *time.Location) (err error) {
	if f.DueAt == "" && f.Delay == "" {
		p.Delay = t.Delay.Std()
		return nil
	}
	p.DueAt, p.Delay, err = readWhen(f.DueAt, f.Delay, zone)
	return err
}

// readWhen reads a due time, or otherwise a delay.
func readWhen(at, delay string, zone *time.Location) (due time.Time, after time.Duration, err error) {
	if at != "" {
		if due, err = page.Minute(at, zone); err != nil {
			err = page.FieldError("due_at", "field.time", at)
		}
		return due, 0, err
	}
	var d registry.Duration
	if err := d.UnmarshalText([]byte(strings.TrimSpace(delay))); err != nil || d < 0 || d.Std() > store.MaxDelay {
		return due, 0, page.FieldError("delay", "field.delay", delay)
	}
	return due, d.Std(), nil
}

func setLimits(p *store.Push, f pushForm, t *registry.Topic) error {
	level := cmp.Or(f.Priority, t.Priority)
	var errs []error
	var err error
	if p.Priority, err = store.ParsePriority(level); err != nil {
		errs = append(errs, page.FieldError("priority", "field.one_of", level, "high, normal, low"))
	}
	var known bool
	if p.OnDuplicate, known = duplicates[f.OnDuplicate]; !known {
		errs = append(errs, page.FieldError("on_duplicate", "field.one_of", f.OnDuplicate, "keep, replace, error"))
	}
	if f.MaxAttempts == "" {
		return errors.Join(errs...)
	}
	_, most := t.AttemptBounds()
	if p.MaxAttempts, err = strconv.Atoi(f.MaxAttempts); err != nil || p.MaxAttempts < 1 || p.MaxAttempts > most {
		errs = append(errs, page.FieldError("max_attempts", "field.between", f.MaxAttempts, 1, most))
	}
	return errors.Join(errs...)
}
