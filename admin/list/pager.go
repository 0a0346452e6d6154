package list

import (
	"net/url"
	"strconv"
)

// Pager is the position in a list, for the template partials/pager.
type Pager struct {
	Page, Pages int
	From, To    int // 1-based positions of the shown rows
	Total       int
	Next        string // for a list by cursor: the next cursor, empty at the end
	First       bool   // for a list by cursor: this is its first page
	ByCursor    bool
}

// Numbered returns the pager of a list whose rows are counted; each is the number of rows on a page.
func Numbered(query url.Values, total, each int) Pager {
	pages := max(1, (total+each-1)/each)
	n, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		n = 1
	}
	n = min(max(n, 1), pages)
	return Pager{Page: n, Pages: pages, From: min((n-1)*each+1, total), To: min(n*each, total), Total: total}
}

// Shown returns the rows of the page.
func Shown[Row any](p Pager, all []Row) []Row {
	if p.Total == 0 {
		return nil
	}
	return all[p.From-1 : p.To]
}

// ByCursor returns the pager of a list that only knows its next page; the parameter of the query is "cursor".
func ByCursor(query url.Values, next string) Pager {
	return Pager{ByCursor: true, Next: next, First: query.Get("cursor") == ""}
}

// BeforeID returns the ID before which a page of the newest rows begins; 0: the first page. An invalid cursor is the
// first page, too.
func BeforeID(query url.Values) uint64 {
	id, _ := ID(query.Get("cursor"))
	return id
}

// ByID returns at most each rows of a list that is read up to each+1 rows, and its pager. The cursor is the ID of the
// last row.
func ByID[Row any](query url.Values, rows []Row, each int, id func(*Row) uint64) ([]Row, Pager) {
	if len(rows) <= each {
		return rows, ByCursor(query, "")
	}
	return rows[:each], ByCursor(query, strconv.FormatUint(id(&rows[each-1]), 10))
}

// ID parses the number of a row. SQLite cannot store the 64th bit.
func ID(text string) (id uint64, ok bool) {
	id, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, false
	}
	return id, true
}
