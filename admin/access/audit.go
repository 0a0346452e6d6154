package access

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/list"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/registry"
)

const auditPage = 50

type auditData struct {
	Entries      []auditLine
	Filter       registry.AuditFilter
	Since, Until string // as typed in the form
	Actions      []string
	Pager        list.Pager
}

// Narrow reports whether the filter excludes anything.
func (d auditData) Narrow() bool {
	return d.Filter.Object+d.Filter.Actor+d.Filter.Action+d.Since+d.Until != ""
}

// auditActions are the actions that the filter offers.
var auditActions = []string{
	"put", "delete", "create", "revoke", "note", "pause", "resume", "rotate", "set overlap", "drop old secret",
	"set role", "set password", "disable", "enable", "set second factor", "clear second factor", "rename",
	"acknowledge", "mute", "unmute", "start", "cancel", "seed", "bootstrap", "seal", "probe",
}

type auditLine struct {
	registry.AuditEntry
	Changes    []difference
	Made, Gone bool // the object did not exist before, or does not exist after
	Pause      struct {
		Reason string    `json:"pause_reason"`
		Until  time.Time `json:"paused_until"`
	}
}

// difference is a field that a change altered, as text; an empty text means that the field was missing.
type difference struct{ Field, Before, After string }

func (h *Handler) auditPage(c echo.Context) error {
	f := registry.AuditFilter{
		Object: strings.TrimSpace(c.QueryParam("object")), Actor: strings.TrimSpace(c.QueryParam("actor")),
		Action: strings.TrimSpace(c.QueryParam("action")), Limit: auditPage + 1,
	}
	f.Since, _ = page.Minute(c.QueryParam("since"), page.Zone(c)) // an invalid time excludes nothing
	f.Until, _ = page.Minute(c.QueryParam("until"), page.Zone(c))
	f.Before = list.BeforeID(c.QueryParams())
	entries, err := h.Audit.Audit(c.Request().Context(), f)
	if err != nil {
		return err
	}
	data := auditData{
		Filter: f, Since: page.MinuteText(f.Since), Until: page.MinuteText(f.Until), Actions: auditActions,
	}
	entries, data.Pager = list.ByID(c.QueryParams(), entries, auditPage,
		func(e *registry.AuditEntry) uint64 { return e.ID })
	for _, e := range entries {
		line := auditLine{AuditEntry: e, Changes: differences(e.Before, e.After)}
		line.Made, line.Gone = isNothing(e.Before) && !isNothing(e.After), isNothing(e.After) && !isNothing(e.Before)
		if e.Action == "pause" || e.Action == "resume" { // one line, and not one a field
			_ = json.Unmarshal(e.After, &line.Pause)
			line.Changes = slices.DeleteFunc(line.Changes, func(d difference) bool { return d.Field != "state" })
		}
		data.Entries = append(data.Entries, line)
	}
	return h.Pages.Render(c, http.StatusOK, "audit", data)
}

func isNothing(state json.RawMessage) bool { return len(state) == 0 || string(state) == "null" }

// differences compares two states field by field. It names fields of nested objects a.b, and compares values that are
// not objects as a whole. updated_at, which every change alters, is the time of the entry.
func differences(before, after json.RawMessage) []difference {
	b, a := map[string]string{}, map[string]string{}
	flattenState("", before, b)
	flattenState("", after, a)
	all := maps.Clone(b)
	maps.Copy(all, a)
	var list []difference
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if b[name] != a[name] && name != "updated_at" {
			list = append(list, difference{name, b[name], a[name]})
		}
	}
	return list
}

func flattenState(name string, state json.RawMessage, into map[string]string) {
	if isNothing(state) {
		return
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(state, &fields); err != nil || len(fields) == 0 {
		into[name] = plain(state)
		return
	}
	for field, value := range fields {
		if name != "" {
			field = name + "." + field
		}
		flattenState(field, value, into)
	}
}

// plain formats a value without JSON syntax where it is clear without it.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" {
		return text
	}
	var list []string
	if json.Unmarshal(value, &list) == nil && len(list) > 0 {
		return strings.Join(list, ", ")
	}
	return string(value)
}
