package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/registry"
)

// auditRegistry is what the audit page needs of the registry.
type auditRegistry interface {
	Audit(ctx context.Context, f registry.AuditFilter) ([]registry.AuditEntry, error)
}

func (a *Admin) auditRoutes(g *echo.Group) { g.GET("/audit", a.auditPage) }

const auditPage = 50

type auditData struct {
	Entries []auditLine
	Filter  registry.AuditFilter
	Pager   Pager
}

type auditLine struct {
	registry.AuditEntry
	Changes []difference
}

// difference is a field that a change altered, in JSON; empty: it was not there.
type difference struct{ Field, Before, After string }

func (a *Admin) auditPage(c echo.Context) error {
	f := registry.AuditFilter{
		Object: strings.TrimSpace(c.QueryParam("object")), Actor: strings.TrimSpace(c.QueryParam("actor")),
		Action: strings.TrimSpace(c.QueryParam("action")), Limit: auditPage + 1,
	}
	f.Before, _ = strconv.ParseUint(c.QueryParam("cursor"), 10, 64) // nonsense is the beginning
	list, err := a.registry.Audit(c.Request().Context(), f)
	if err != nil {
		return err
	}
	next := ""
	if len(list) > auditPage {
		list = list[:auditPage]
		next = strconv.FormatUint(list[auditPage-1].ID, 10)
	}
	data := auditData{Filter: f, Pager: cursorPager(c, next)}
	for _, e := range list {
		data.Entries = append(data.Entries, auditLine{e, differences(e.Before, e.After)})
	}
	return a.render(c, http.StatusOK, "audit", data)
}

// differences compares two states field by field; what is no object is compared as a whole.
func differences(before, after json.RawMessage) []difference {
	b, a := fieldsOf(before), fieldsOf(after)
	all := map[string]bool{}
	for name := range b {
		all[name] = true
	}
	for name := range a {
		all[name] = true
	}
	var list []difference
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(b[name], a[name]) {
			list = append(list, difference{name, string(b[name]), string(a[name])})
		}
	}
	return list
}

func fieldsOf(state json.RawMessage) map[string]json.RawMessage {
	if len(state) == 0 || string(state) == "null" {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(state, &fields); err != nil {
		return map[string]json.RawMessage{"": state}
	}
	return fields
}
