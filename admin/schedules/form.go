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
	"github.com/wakecall/wakecall/internal/schedule"
	"github.com/wakecall/wakecall/internal/schedule/calendar"
)

// form is a schedule as typed: texts by the API's field names, so that a wrong value can be shown again. It also has
// the revision of the definition when the form was opened.
type form map[string]string

type formData struct {
	Form    form
	Errors  map[string]string
	New     bool
	Changed bool // somebody else has changed the schedule since the form was opened
	Preview preview
	Topics  []string
	Zones   []string
	Levels  []string

	Missed, Overlaps []string
}

// advanced are the fields that few schedules need.
var advanced = []string{"start_at", "end_at", "jitter", "missed", "max_late", "overlap", "priority", "headers"}

// Open reports whether the advanced fields are shown at first: one differs from its default, or has an error.
func (d formData) Open() bool {
	blank := registry.NewSchedule("")
	usual := formOf(&blank, time.UTC)
	return slices.ContainsFunc(advanced, func(name string) bool {
		return d.Form[name] != usual[name] || d.Errors[name] != ""
	})
}

func formOf(s *registry.Schedule, zone *time.Location) form {
	f := form{
		"name": s.Name, "topic": s.Topic, "cron": s.Cron, "time_zone": s.TimeZone, "body": string(s.Body),
		"jitter": durationText(s.Jitter), "max_late": durationText(s.MaxLate), "every": durationText(s.Every),
		"missed": string(s.Missed), "overlap": string(s.Overlap), "priority": s.Priority,
		"start_at": timeText(s.StartAt, zone), "end_at": timeText(s.EndAt, zone),
		"revision": strconv.FormatInt(s.Revision, 10),
	}
	var lines []string
	for _, name := range page.SortedKeys(s.Headers) {
		lines = append(lines, name+": "+s.Headers[name])
	}
	f["headers"] = strings.Join(lines, "\n")
	return f
}

// durationText writes a duration as the form expects it; 0 is empty.
func durationText(d registry.Duration) string {
	if d == 0 {
		return ""
	}
	return strings.ReplaceAll(page.Duration(d), " ", "")
}

func timeText(at time.Time, zone *time.Location) string {
	if at.IsZero() {
		return ""
	}
	return page.MinuteText(at.In(zone))
}

func readForm(c echo.Context) form {
	params, _ := c.FormParams() // of a malformed request, the fields that could be read
	f := form{}
	for name := range params {
		f[name] = strings.TrimSpace(params.Get(name))
	}
	return f
}

// schedule returns a schedule with what the form says. What it does not say stays as it was.
func (f form) schedule(was registry.Schedule, zone *time.Location) (s registry.Schedule, err error) {
	s = was
	s.Name, s.Topic, s.Cron, s.TimeZone, s.Priority = f["name"], f["topic"], f["cron"], f["time_zone"], f["priority"]
	s.Missed, s.Overlap = schedule.Missed(f["missed"]), registry.Overlap(f["overlap"])
	s.Body = json.RawMessage(f["body"])
	var errs []error
	for name, d := range map[string]*registry.Duration{"every": &s.Every, "jitter": &s.Jitter, "max_late": &s.MaxLate} {
		errs = append(errs, f.duration(name, d))
	}
	for name, at := range map[string]*time.Time{"start_at": &s.StartAt, "end_at": &s.EndAt} {
		errs = append(errs, f.time(name, at, zone))
	}
	s.Headers, err = f.headers()
	return s, errors.Join(append(errs, err)...)
}

func (f form) duration(name string, d *registry.Duration) error {
	*d = 0
	if f[name] == "" {
		return nil
	}
	if err := d.UnmarshalText([]byte(f[name])); err != nil {
		return page.FieldError(name, "field.expected_not", f[name], message.New("kind.duration"))
	}
	return nil
}

// time reads a time, which stays to the second if the form shows it unchanged.
func (f form) time(name string, at *time.Time, zone *time.Location) (err error) {
	if !at.IsZero() && f[name] == timeText(*at, zone) {
		return nil
	}
	if *at, err = page.Minute(f[name], zone); err != nil {
		return page.FieldError(name, "field.time", f[name])
	}
	return nil
}

// headers parses one header per line.
func (f form) headers() (map[string]string, error) {
	headers := map[string]string{}
	for line := range strings.Lines(f["headers"]) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return headers, page.FieldError("headers", "field.header_colon", line)
		}
		if _, ok := headers[strings.TrimSpace(name)]; ok {
			return headers, page.FieldError("headers", "field.header_twice", strings.TrimSpace(name))
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if len(headers) == 0 {
		return nil, nil
	}
	return headers, nil
}

// preview is what the page says about a rule while it is typed.
type preview struct {
	Words    message.Message
	Upcoming []moment
	Clocks   clocks
	Wrong    message.Message
	Cron     string // with a mistake, at
	Mark     string // spaces, and a mark below the mistake
	Empty    bool   // nothing is typed yet
	ZoneData string
}

const upcoming = 5

// previewOf previews the rule of a schedule that may be incomplete.
func (h *Handler) previewOf(s registry.Schedule, readErr error) preview {
	p := preview{Empty: s.Cron == "" && s.Every == 0 && readErr == nil, ZoneData: calendar.ZoneData()}
	if p.Empty {
		return p
	}
	if s.CreatedAt.IsZero() {
		s.CreatedAt = h.Now().Truncate(time.Second)
	}
	rule, err := s.Rule()
	if err = errors.Join(readErr, err); err != nil {
		p.wrong(&s, err)
		return p
	}
	p.Words, p.Clocks = inWords(&s), clocksOf(&s, rule, h.Now())
	now := h.Now()
	p.Upcoming = momentsOf(&s, rule.Between(now, now.AddDate(50, 0, 0), upcoming))
	return p
}

// wrong says what is wrong with a rule, and where.
func (p *preview) wrong(s *registry.Schedule, err error) {
	if f, ok := errors.AsType[*registry.FieldError](err); ok {
		p.Wrong = f.Message
	}
	_, err = calendar.Parse(s.Cron, s.TimeZone)
	if at, ok := errors.AsType[*calendar.Error](err); ok && s.Cron != "" {
		p.Cron = s.Cron
		p.Mark = strings.Repeat(" ", utf8.RuneCountInString(s.Cron[:min(at.Offset, len(s.Cron))])) + "^"
	}
}

func (h *Handler) preview(c echo.Context) error {
	f := readForm(c)
	rule := form{"cron": f["cron"], "every": f["every"], "time_zone": f["time_zone"], "start_at": f["start_at"],
		"end_at": f["end_at"]}
	d := formData{Preview: h.previewOf(rule.schedule(h.stored(f["name"]), page.Zone(c)))}
	return h.Pages.Fragment(c, "schedule_form#preview", d)
}

// stored returns the schedule of a name, or a new one.
func (h *Handler) stored(name string) registry.Schedule {
	if s := h.Registry.Snapshot().Schedules.Get(name); s != nil {
		return *s
	}
	return registry.NewSchedule(name)
}

// zonesSuggested are some time zones of many people.
var zonesSuggested = []string{
	"UTC", "America/Los_Angeles", "America/Denver", "America/Chicago", "America/New_York", "America/Sao_Paulo",
	"Europe/London", "Europe/Berlin", "Europe/Moscow", "Africa/Cairo", "Africa/Lagos", "Africa/Johannesburg",
	"Asia/Dubai", "Asia/Kolkata", "Asia/Jakarta", "Asia/Shanghai", "Asia/Singapore", "Asia/Tokyo", "Australia/Sydney",
	"Pacific/Auckland",
}

func (h *Handler) formPage(c echo.Context, status int, d formData) error {
	d.Preview = h.previewOf(d.Form.schedule(h.stored(d.Form["name"]), page.Zone(c)))
	for name := range h.Registry.Snapshot().Topics.All() {
		if !registry.IsNamespace(name) && len(d.Topics) < topicsSuggested {
			d.Topics = append(d.Topics, name)
		}
	}
	d.Zones, d.Levels = zonesSuggested, []string{"high", "normal", "low"}
	d.Missed = []string{string(schedule.MissedLast), string(schedule.MissedSkip), string(schedule.MissedAll)}
	d.Overlaps = []string{
		string(registry.OverlapSkip), string(registry.OverlapReplace), string(registry.OverlapAllow),
	}
	return h.Pages.Render(c, status, "schedule_form", d)
}

// newPage offers a form with the user's time zone, for the topic that the query names.
func (h *Handler) newPage(c echo.Context) error {
	s := registry.NewSchedule("")
	s.Topic, s.Body = c.QueryParam("topic"), json.RawMessage("{}")
	if zone := page.Zone(c).String(); knownZone(zone) {
		s.TimeZone = zone
	}
	return h.formPage(c, http.StatusOK, formData{Form: formOf(&s, page.Zone(c)), New: true})
}

func knownZone(name string) bool {
	_, err := calendar.Zone(name)
	return err == nil
}

func (h *Handler) create(c echo.Context) error {
	f := readForm(c)
	s, err := f.schedule(registry.NewSchedule(""), page.Zone(c))
	return h.put(c, formData{Form: f, New: true}, s, err, func(was *registry.Schedule) error {
		if was != nil {
			return page.FieldError("name", "schedules.name_taken", f["name"])
		}
		return nil
	})
}

func (h *Handler) editPage(c echo.Context, name string) error {
	s := h.Registry.Snapshot().Schedules.Get(name)
	if s == nil {
		return fmt.Errorf("%.80q: %w", name, registry.ErrNoSchedule)
	}
	return h.formPage(c, http.StatusOK, formData{Form: formOf(s, page.Zone(c))})
}

// save stores a changed schedule, unless somebody else has changed it since the form was opened.
func (h *Handler) save(c echo.Context, name string) error {
	was := h.Registry.Snapshot().Schedules.Get(name)
	if was == nil {
		return fmt.Errorf("%.80q: %w", name, registry.ErrNoSchedule)
	}
	f := readForm(c)
	f["name"] = name
	s, err := f.schedule(*was, page.Zone(c))
	d := formData{Form: f}
	return h.put(c, d, s, err, func(stored *registry.Schedule) error {
		switch {
		case stored == nil:
			return fmt.Errorf("%.80q: %w", name, registry.ErrNoSchedule)
		case f["revision"] != "" && f["revision"] != strconv.FormatInt(stored.Revision, 10):
			f["revision"] = strconv.FormatInt(stored.Revision, 10)
			return registry.ErrChanged
		}
		return nil
	})
}

// put stores what a form says, or shows the form with what is wrong.
func (h *Handler) put(
	c echo.Context, d formData, s registry.Schedule, err error, may func(was *registry.Schedule) error,
) error {
	if h.MaxBody > 0 && len(s.Body) > h.MaxBody {
		err = errors.Join(err, page.FieldError("body", "field.too_many_bytes", len(s.Body), h.MaxBody))
	}
	if t := h.Registry.Snapshot().Topic(s.Topic); t == nil || registry.IsNamespace(s.Topic) {
		err = errors.Join(err, page.FieldError("topic", "field.no_topic", s.Topic))
	}
	if err != nil {
		err = errors.Join(err, s.Validate())
	} else {
		_, _, err = h.Schedules.Put(c.Request().Context(), page.Actor(c), s, may)
	}
	if errors.Is(err, registry.ErrChanged) {
		d.Changed = true
		return h.formPage(c, http.StatusConflict, d)
	}
	if err != nil {
		fields, rest := h.Texts.FieldErrors(c, err)
		if rest != nil {
			return rest
		}
		d.Errors = fields
		return h.formPage(c, http.StatusUnprocessableEntity, d)
	}
	return h.done(c, s.Name, nil, map[bool]string{true: "schedules.created", false: "schedules.saved"}[d.New])
}
