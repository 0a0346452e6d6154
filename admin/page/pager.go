package page

import (
	"strconv"

	"github.com/labstack/echo/v4"
)

// Pager is the position in a list, for the template partials/pager.
type Pager struct {
	Page, Pages int
	From, To    int // 1-based positions of the shown entries
	Total       int
	Next        string // for a list by cursor: the next cursor, empty at the end
	First       bool   // for a list by cursor: this is its first page
	ByCursor    bool
}

// NewPager returns the pager of a numbered page. From-1 and To are the bounds of the shown entries.
func NewPager(page string, total, each int) Pager {
	pages := max(1, (total+each-1)/each)
	n, err := strconv.Atoi(page)
	if err != nil {
		n = 1
	}
	n = min(max(n, 1), pages)
	return Pager{Page: n, Pages: pages, From: min((n-1)*each+1, total), To: min(n*each, total), Total: total}
}

// ID parses the number of a row. SQLite cannot store the 64th bit.
func ID(text string) (id uint64, ok bool) {
	id, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, false
	}
	return id, true
}

// CursorPager returns the pager of a list that only knows its next page; the query parameter is "cursor".
func CursorPager(c echo.Context, next string) Pager {
	return Pager{ByCursor: true, Next: next, First: c.QueryParam("cursor") == ""}
}

// PageOf returns the page's part of all entries.
func PageOf[T any](p Pager, all []T) []T {
	if p.Total == 0 {
		return nil
	}
	return all[p.From-1 : p.To]
}
