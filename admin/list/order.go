package list

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strings"
)

// Key is what rows are sorted by: lowest first, equal keys in the order of the rows before.
type Key [2]float64

// Highest returns a key that sorts the highest number first.
func Highest[Row any](of func(Row) int64) func(Row) Key {
	return func(r Row) Key { return Key{-float64(of(r))} }
}

// Column is a column of a list.
type Column[Row any] struct {
	By     string // its name in the query; empty: the list cannot be sorted by it
	Label  string
	Number bool          // sorted highest first, and aligned right
	Wide   bool          // only shown on wide screens
	Key    func(Row) Key // nil: the rows are in this order already
}

// Order is how a list is sorted, for the template partials/list_heads. The parameter sort of the query names a column;
// -NAME reverses it. Without a known column it is the first one's order.
type Order[Row any] struct {
	Columns []Column[Row]
	By      string
	Column  Column[Row] // of By
	Down    bool        // By is reversed
	query   url.Values
}

// NewOrder returns the order that a query asks for. Links to other orders keep the rest of the query.
func NewOrder[Row any](columns []Column[Row], query url.Values) Order[Row] {
	o := Order[Row]{Columns: columns, By: columns[0].By, Column: columns[0], query: query}
	name, down := strings.CutPrefix(query.Get("sort"), "-")
	i := slices.IndexFunc(columns, func(c Column[Row]) bool { return c.By == name })
	if name != "" && i >= 0 {
		o.By, o.Column, o.Down = query.Get("sort"), columns[i], down
	}
	return o
}

// Direction returns how a column is sorted now: ascending, descending or not.
func (o Order[Row]) Direction(c Column[Row]) string {
	switch {
	case c.By != o.Column.By:
		return ""
	case c.Number != o.Down:
		return "descending"
	}
	return "ascending"
}

// Link returns the query for the order that a click on a column selects.
func (o Order[Row]) Link(c Column[Row]) template.URL {
	next := c.By
	if o.By == c.By {
		next = "-" + c.By
	}
	return template.URL("?" + With(o.query, "sort", next).Encode())
}

// SortBy returns the rows sorted by a key; down: highest first. It computes each key once: there may be 100,000.
func SortBy[Row any](rows []Row, key func(Row) Key, down bool) []Row {
	type keyed struct {
		key Key
		at  int
	}
	keys := make([]keyed, len(rows))
	for i, r := range rows {
		k := key(r)
		if down {
			k = Key{-k[0], -k[1]}
		}
		keys[i] = keyed{k, i}
	}
	slices.SortFunc(keys, func(x, y keyed) int {
		return cmp.Or(cmp.Compare(x.key[0], y.key[0]), cmp.Compare(x.key[1], y.key[1]), cmp.Compare(x.at, y.at))
	})
	sorted := make([]Row, len(rows))
	for i, k := range keys {
		sorted[i] = rows[k.at]
	}
	return sorted
}
