package page

import (
	"strconv"

	"github.com/labstack/echo/v4"
)

// Pager is the place in a list: for the template partials/pager.
type Pager struct {
	Page, Pages int
	From, To    int // 1-based, of the entries shown
	Total       int
	Next        string // of a list by cursor: the cursor of what follows, empty at the end
	First       bool   // of a list by cursor: this is its beginning
	ByCursor    bool
}

// NewPager goes to the page with a number; From-1 and To are the bounds of what to show.
func NewPager(page string, total, each int) Pager {
	pages := max(1, (total+each-1)/each)
	n, err := strconv.Atoi(page)
	if err != nil {
		n = 1
	}
	n = min(max(n, 1), pages)
	return Pager{Page: n, Pages: pages, From: min((n-1)*each+1, total), To: min(n*each, total), Total: total}
}

// ID reads the number of a row. SQLite has no room for the 64th bit.
func ID(text string) (id uint64, ok bool) {
	id, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, false
	}
	return id, true
}

// CursorPager is for lists that only know what follows; the query parameter is "cursor".
func CursorPager(c echo.Context, next string) Pager {
	return Pager{ByCursor: true, Next: next, First: c.QueryParam("cursor") == ""}
}

// PageOf cuts the entries of the page out of all.
func PageOf[T any](p Pager, all []T) []T {
	if p.Total == 0 {
		return nil
	}
	return all[p.From-1 : p.To]
}
