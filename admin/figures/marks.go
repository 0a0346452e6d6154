package figures

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/registry"
)

// mark is an event on the time axis of charts: an alert, a pause, another edit, or the moment an endpoint began to fail
// or to answer again.
type mark struct {
	Kind   string // its text is charts.mark_KIND
	At     time.Time
	End    time.Time // of an alert; zero: it is open, or it has none
	Object string    // of an edit, such as topic/shop.close
	Actor  string
	Key    string // of its text; empty: the alert
	Args   []any
	Alert  *alert.Alert
}

// Look returns what the mark looks like: its kind, or critical if somebody has to act.
func (m mark) Look() string {
	if m.Lasts() && m.Alert.Severity == alert.Critical {
		return "critical"
	}
	return m.Kind
}

// Lasts reports whether it is an alert that has not ended.
func (m mark) Lasts() bool { return m.Alert != nil && m.End.IsZero() }

// Lasted returns how long an ended alert was open.
func (m mark) Lasted() time.Duration { return m.End.Sub(m.At) }

type marks struct {
	List     []mark // newest first
	More     bool   // there are earlier ones
	Unknown  bool   // the registry's database does not answer
	Series   string
	From, To time.Time
}

// Many reports whether the events are of several topics and shards.
func (m marks) Many() bool { return m.Series == history.AllTopics }

const marksShown = 100

// marksPart renders the events in the range of a page; the script draws them into the charts.
func (h *Handler) marksPart(c echo.Context) error {
	d := marks{Series: c.QueryParam("series")}
	d.From, d.To = RangeOf(c, h.Now()).bounds(h.Now())
	if err := h.collectMarks(c, &d); err != nil {
		h.Log.Debug("list the events of charts", "error", err)
		d.Unknown = true
	}
	slices.SortStableFunc(d.List, func(a, b mark) int { return b.At.Compare(a.At) })
	if len(d.List) > marksShown {
		d.List, d.More = d.List[:marksShown], true
	}
	return h.Pages.Fragment(c, "partials/marks", &d)
}

// collectMarks adds the events of the series: of all topics and shards, of one topic or of one shard.
func (h *Handler) collectMarks(c echo.Context, d *marks) error {
	ctx := c.Request().Context()
	topic, shard := d.Series, ""
	if name, is := strings.CutPrefix(d.Series, history.ShardSeries("")); is {
		topic, shard = "", name
	}
	if topic == history.AllTopics {
		topic = ""
	}
	if err := h.alertMarks(ctx, d, topic, shard); err != nil {
		return err
	}
	objects := []string{"topic/*", "shard/*"}
	switch {
	case topic != "":
		objects = []string{"topic/" + topic}
	case shard != "":
		objects = []string{"shard/" + shard}
	}
	for _, object := range objects {
		f := registry.AuditFilter{Object: object, Since: d.From, Until: d.To, Limit: marksShown + 1}
		entries, err := h.Trail.Audit(ctx, f)
		if err != nil {
			return err
		}
		for i := range entries {
			d.List = append(d.List, editMark(&entries[i]))
		}
	}
	if topic == "" {
		return nil
	}
	all, err := h.History.All(ctx, topic)
	d.List = append(d.List, answerMarks(all, d.From, d.To)...)
	return err
}

func (h *Handler) alertMarks(ctx context.Context, d *marks, topic, shard string) error {
	f := alert.Filter{Topic: topic, Shard: shard, From: d.From, To: d.To, Limit: marksShown + 1}
	alerts, err := h.Alerts.ListAlerts(ctx, f)
	for i := range alerts {
		m := mark{Kind: "alert", At: alerts[i].BeganAt, Alert: &alerts[i]}
		if alerts[i].EndedAt != nil {
			m.End = *alerts[i].EndedAt
		}
		d.List = append(d.List, m)
	}
	return err
}

// stateKeys are the texts of a topic's new state.
var stateKeys = map[string]string{
	"active": "charts.mark_resumed", "paused": "charts.mark_paused", "offline": "charts.mark_offline",
}

// editMark returns the mark of a change in the audit trail.
func editMark(e *registry.AuditEntry) mark {
	m := mark{Kind: "edit", At: e.At, Object: e.Object, Actor: e.Actor}
	before, after := fieldsOf(e.Before), fieldsOf(e.After)
	state := stateKeys[after["state"]]
	switch {
	case e.Action == "put" && len(before) == 0:
		m.Key = "charts.mark_added"
	case e.Action == "delete":
		m.Key = "charts.mark_removed"
	case (e.Action == "note" || e.Action == "pause") && after["pause_reason"] != "":
		m.Kind, m.Key, m.Args = "pause", "charts.mark_reason", []any{after["pause_reason"]}
	case before["state"] != after["state"] && state != "":
		m.Kind, m.Key = "pause", state
	default:
		m.Key, m.Args = "charts.mark_changed", []any{changedFields(before, after)}
		if e.Action != "put" {
			m.Key, m.Args = "charts.mark_done", []any{e.Action, m.Args[0]}
		}
	}
	return m
}

// fieldsOf returns the fields of a state in the audit trail as text.
func fieldsOf(state json.RawMessage) map[string]string {
	var raw map[string]json.RawMessage
	_ = json.Unmarshal(state, &raw) // anything but an object has no fields
	fields := map[string]string{}
	for name, value := range raw {
		text := ""
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		if text != "" && text != "null" {
			fields[name] = text
		}
	}
	delete(fields, "updated_at")
	return fields
}

const (
	fieldsShown = 4
	fieldLength = 60
)

// changedFields names the fields that differ, with their values if these are short.
func changedFields(before, after map[string]string) string {
	all := maps.Clone(before)
	maps.Copy(all, after)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, is := cmp.Or(before[name], "–"), cmp.Or(after[name], "–")
		switch {
		case was == is:
		case len(was)+len(is) > fieldLength:
			list = append(list, name)
		default:
			list = append(list, fmt.Sprintf("%s %s → %s", name, was, is))
		}
	}
	if len(list) > fieldsShown {
		list = append(list[:fieldsShown], "…")
	}
	return strings.Join(list, ", ")
}

const failuresMarked = 5 // fewer failures in a row are no outage

// answerMarks returns when an endpoint began to fail, and when it recovered (often by a deploy): at the first delivery
// after a period of failures only, of each period that touches the time from one to another. all is not only of that
// time, so that it does not change when a period began.
func answerMarks(all []history.Points, from, to time.Time) (list []mark) {
	var failed float64 // attempts since the last delivery
	var since time.Time
	add := func(end time.Time, key string) {
		if failed < failuresMarked || since.After(to) || end.Before(from) {
			return
		}
		list = append(list, answerMark("charts.mark_fails", since, failed))
		if key != "" && !end.After(to) {
			list = append(list, answerMark(key, end, failed))
		}
	}
	for _, p := range all {
		for i, at := range p.Times {
			bad, good, begins := p.Value("failed", i), p.Value("delivered", i), time.Unix(at-p.Step, 0)
			if good == 0 && bad > 0 && failed == 0 {
				since = begins
			}
			if good == 0 {
				failed += bad * float64(p.Step)
				continue
			}
			add(begins, "charts.mark_answers")
			failed = 0
		}
	}
	add(to, "")
	return list
}

func answerMark(key string, at time.Time, failed float64) mark {
	return mark{Kind: "endpoint", Key: key, At: at, Args: []any{int64(math.Round(failed))}}
}
