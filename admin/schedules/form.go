package schedules

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule/calendar"
)

// A schedule's form also has revision, that of the definition when the form was opened.
type formData struct {
	Form      page.Form
	Errors    map[string]string
	New       bool
	Conflicts []page.Conflict // somebody else has changed the schedule since the form was opened
	Preview   preview
	Topics    []string
}

// advanced are the fields that few schedules need.
var advanced = []string{"start_at", "end_at", "jitter", "missed", "max_late", "overlap", "priority", "headers"}

// Open reports whether the advanced fields are shown at first: one differs from its default, has an error, or was
// changed by somebody else.
func (d formData) Open() bool {
	blank := registry.NewSchedule("")
	usual := formOf(&blank, time.UTC)
	return slices.ContainsFunc(advanced, func(name string) bool {
		return d.Form.Differs(name, usual, d.Errors, d.Conflicts)
	})
}

// formOf returns the form of a schedule, with times in a zone.
func formOf(s *registry.Schedule, zone *time.Location) page.Form {
	f := page.Typed(s.Fields())
	f["name"], f["body"], f["revision"] = s.Name, string(s.Body), revisionOf(s)
	f["start_at"], f["end_at"] = page.MinuteText(s.StartAt.In(zone)), page.MinuteText(s.EndAt.In(zone))
	return f
}

func revisionOf(s *registry.Schedule) string { return strconv.FormatInt(s.Revision, 10) }

// scheduleOf decodes a form with the code that reads the API's schedules. What it does not show stays as it was.
func scheduleOf(f page.Form, was registry.Schedule, zone *time.Location) (*registry.Schedule, error) {
	headers, err := f.Headers()
	errs := []error{err}
	fields := map[string]any{"headers": headers}
	for _, name := range []string{
		"topic", "cron", "every", "time_zone", "priority", "jitter", "missed", "max_late", "overlap",
	} {
		if f[name] != "" {
			fields[name] = f[name]
		}
	}
	for name, at := range map[string]time.Time{"start_at": was.StartAt, "end_at": was.EndAt} {
		if f[name] != page.MinuteText(at.In(zone)) { // otherwise it stays to the millisecond
			at, err = f.Minute(name, zone)
			errs = append(errs, err)
		}
		if !at.IsZero() {
			fields[name] = at
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("read the form of schedule %s: %w", f["name"], err)
	}
	s, err := registry.DecodeSchedule(f["name"], data)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	s.Body = json.RawMessage(f["body"])
	s.State, s.PausedUntil, s.CreatedAt = was.State, was.PausedUntil, was.CreatedAt
	return s, nil
}

// preview is what the page says about a rule while it is typed.
type preview struct {
	told
	Empty bool // nothing is typed yet
	Wrong message.Message
	Mark  string // the cron expression, and below its mistake a mark
}

func (h *Handler) previewOf(f page.Form, zone *time.Location) (p preview) {
	if f["cron"] == "" && f["every"] == "" {
		return preview{Empty: true}
	}
	rule := page.Form{"name": "preview"}
	for _, name := range []string{"cron", "every", "time_zone", "start_at", "end_at"} {
		rule[name] = f[name]
	}
	was := h.stored(f["name"])
	was.State = registry.TopicActive
	s, err := scheduleOf(rule, was, zone)
	if err == nil {
		p.told, err = tell(s, h.Now())
	}
	if field, ok := errors.AsType[*registry.FieldError](err); ok {
		p.Wrong, p.Mark = field.Message, markOf(f["cron"], f["time_zone"])
	}
	return p
}

// markOf returns a cron expression with a mark below its mistake, if it has one.
func markOf(cron, zone string) string {
	_, err := calendar.Parse(cron, zone)
	wrong, ok := errors.AsType[*calendar.Error](err)
	if cron == "" || !ok {
		return ""
	}
	before := cron[:min(wrong.Offset, len(cron))]
	return cron + "\n" + strings.Repeat(" ", utf8.RuneCountInString(before)) + "^"
}

func (h *Handler) preview(c echo.Context) error {
	return h.Pages.Fragment(c, "schedule_form#preview", formData{Preview: h.previewOf(page.ReadForm(c), page.Zone(c))})
}

// stored returns the schedule of a name, or a new one.
func (h *Handler) stored(name string) registry.Schedule {
	if s := h.Registry.Snapshot().Schedules.Get(name); s != nil {
		return *s
	}
	s := registry.NewSchedule(name)
	s.CreatedAt = h.Now().Truncate(time.Second)
	return s
}

func (h *Handler) formPage(c echo.Context, status int, d formData) error {
	d.Preview, d.Topics = h.previewOf(d.Form, page.Zone(c)), page.TopicNames(h.Registry)
	return h.Pages.Render(c, status, "schedule_form", d)
}

// newPage offers a form with the user's time zone, for the topic that the query names.
func (h *Handler) newPage(c echo.Context) error {
	s := registry.NewSchedule("")
	s.Topic, s.Body = c.QueryParam("topic"), json.RawMessage("{}")
	if zone, err := calendar.Zone(page.Zone(c).String()); err == nil {
		s.TimeZone = zone.String()
	}
	return h.formPage(c, http.StatusOK, formData{Form: formOf(&s, page.Zone(c)), New: true})
}

func (h *Handler) create(c echo.Context) error {
	f := page.ReadForm(c)
	err := h.put(c, f, h.stored(""), func(was *registry.Schedule) error {
		if was != nil {
			return page.FieldError("name", "schedules.name_taken", was.Name)
		}
		return nil
	})
	if err != nil {
		return h.formProblem(c, formData{Form: f, New: true}, err)
	}
	return h.done(c, f["name"], nil, "schedules.created")
}

func (h *Handler) editPage(c echo.Context, s *registry.Schedule) error {
	return h.formPage(c, http.StatusOK, formData{Form: formOf(s, page.Zone(c))})
}

// save stores a changed schedule, unless somebody else has changed it since the form was opened.
func (h *Handler) save(c echo.Context, was *registry.Schedule) error {
	f := page.ReadForm(c)
	f["name"] = was.Name
	var theirs *registry.Schedule
	err := h.put(c, f, *was, func(stored *registry.Schedule) error {
		if stored == nil {
			return registry.ErrNoSchedule
		}
		if f["revision"] != "" && f["revision"] != revisionOf(stored) {
			theirs = stored
			return registry.ErrChanged
		}
		return nil
	})
	if theirs != nil && errors.Is(err, registry.ErrChanged) {
		return h.conflictPage(c, f, theirs)
	}
	if err != nil {
		return h.formProblem(c, formData{Form: f}, err)
	}
	return h.done(c, was.Name, nil, "schedules.saved")
}

// conflictPage shows both versions. Saving again overwrites the version shown.
func (h *Handler) conflictPage(c echo.Context, f page.Form, theirs *registry.Schedule) error {
	yours, err := scheduleOf(f, *theirs, page.Zone(c))
	if err != nil {
		return err
	}
	names := registry.DifferingFields(theirs, yours)
	if len(names) == 0 { // only the state was changed, which the form does not show
		return h.done(c, theirs.Name, nil, "schedules.saved")
	}
	f["revision"] = revisionOf(theirs)
	list := page.Conflicts(names, theirs.Fields(), yours.Fields())
	return h.formPage(c, http.StatusConflict, formData{Form: f, Conflicts: list})
}

// put stores what a form says.
func (h *Handler) put(
	c echo.Context, f page.Form, was registry.Schedule, may func(was *registry.Schedule) error,
) error {
	s, err := scheduleOf(f, was, page.Zone(c))
	if err != nil {
		return err
	}
	errs := []error{s.Validate()}
	if h.MaxBody > 0 && len(s.Body) > h.MaxBody {
		errs = append(errs, page.FieldError("body", "field.too_many_bytes", len(s.Body), h.MaxBody))
	}
	if h.Registry.Snapshot().Topic(s.Topic) == nil || registry.IsNamespace(s.Topic) {
		errs = append(errs, page.FieldError("topic", "field.no_topic", s.Topic))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, _, err = h.Schedules.Put(c.Request().Context(), page.Actor(c), *s, may)
	return err
}

func (h *Handler) formProblem(c echo.Context, d formData, err error) error {
	fields, rest := h.Texts.FieldErrors(c, err)
	if rest != nil {
		return rest
	}
	d.Errors = fields
	return h.formPage(c, http.StatusUnprocessableEntity, d)
}
