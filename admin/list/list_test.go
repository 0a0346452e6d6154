package list

import (
	"net/url"
	"slices"
	"testing"
)

func query(t *testing.T, text string) url.Values {
	t.Helper()
	q, err := url.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestNumberedPages: a page number out of range, or none, is the nearest page.
func TestNumberedPages(t *testing.T) {
	rows := []int{1, 2, 3, 4, 5}
	for text, want := range map[string][]int{"": {1, 2}, "page=2": {3, 4}, "page=9": {5}, "page=-1": {1, 2}, "page=x": {1, 2}} {
		if got := Shown(Numbered(query(t, text), len(rows), 2), rows); !slices.Equal(got, want) {
			t.Errorf("%q shows %v, want %v", text, got, want)
		}
	}
	if got := Shown(Numbered(nil, 0, 2), rows[:0]); got != nil {
		t.Errorf("an empty list shows %v", got)
	}
}

// TestPagesByID: the cursor is the ID of the last row, and only if there are more.
func TestPagesByID(t *testing.T) {
	id := func(n *uint64) uint64 { return *n }
	rows, p := ByID(query(t, "cursor=10"), []uint64{9, 8, 7}, 2, id)
	if !slices.Equal(rows, []uint64{9, 8}) || p.Next != "8" || p.First {
		t.Errorf("%v %+v", rows, p)
	}
	if rows, p = ByID(nil, []uint64{9, 8}, 2, id); len(rows) != 2 || p.Next != "" || !p.First {
		t.Errorf("%v %+v", rows, p)
	}
	if BeforeID(query(t, "cursor=8")) != 8 || BeforeID(query(t, "cursor=x")) != 0 {
		t.Error("the cursor is not the ID")
	}
}

// TestOrder: a click on the sorted column reverses it; links keep the filters and drop the page.
func TestOrder(t *testing.T) {
	columns := []Column[int]{
		{By: "name"}, {By: "jobs", Number: true, Key: Highest(func(n int) int64 { return int64(n) })}, {Label: "chart"},
	}
	for text, want := range map[string][3]string{
		"":                        {"name", "ascending", "?sort=-name"},
		"sort=nonsense&q=x":       {"name", "ascending", "?q=x&sort=-name"},
		"sort=-name&page=3":       {"-name", "descending", "?sort=name"},
		"sort=jobs&q=a%26b&page=": {"jobs", "descending", "?q=a%26b&sort=-jobs"},
		"sort=-jobs":              {"-jobs", "ascending", "?sort=jobs"},
		"sort=":                   {"name", "ascending", "?sort=-name"},
	} {
		o := NewOrder(columns, query(t, text))
		if got := [3]string{o.By, o.Direction(o.Column), string(o.Link(o.Column))}; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if o.Direction(columns[2]) != "" {
			t.Errorf("%q sorts a column without an order", text)
		}
	}
	if got := SortBy([]int{1, 3, 2}, columns[1].Key, false); !slices.Equal(got, []int{3, 2, 1}) {
		t.Errorf("sorted %v", got)
	}
}
