package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSearchFindsAllLinesOfAnID in plain and packed files, the newest day first, and reports how far it has come.
func TestSearchFindsAllLinesOfAnID(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	j := open(t, dir, c)
	id := "order-\"42\"/\u0085é"
	write := func(n int, op Op) {
		t.Helper()
		var lines []RequestLine
		for i := range 500 {
			lines = append(lines, RequestLine{Op: OpPush, Topic: "other", ID: fmt.Sprint("order-", n, i),
				Body: []byte(`{"id":"` + id + `","x":1}`)})
		}
		lines = append(lines, RequestLine{Op: op, Topic: "t", ID: id, Body: []byte(strings.Repeat("x", 2<<20))},
			RequestLine{Op: OpClear, Topic: "t"})
		if err := j.Requests(lines); err != nil {
			t.Fatal(err)
		}
		if err := j.Attempts([]AttemptLine{{Topic: "t", ID: id, N: n, Status: 200, Outcome: Done}, {ID: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	write(1, OpPush)
	c.add(day)
	write(2, OpReplace)
	housekeep(t, j)
	torn := filepath.Join(dir, fileName(Requests, c.now()))
	f, err := os.OpenFile(torn, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"ts":"2025-03-10T12:00:00.000Z","op":"delete"`); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()

	var got []string
	var last Progress
	err = Search(t.Context(), dir, Wanted{ID: id}, func(p Progress) {
		if p.Read < last.Read || p.Read > p.Total {
			t.Errorf("after %+v comes %+v", last, p)
		}
		last = p
	}, func(l Found) {
		if l.Attempt != nil {
			got = append(got, fmt.Sprint(string(l.Attempt.Outcome), l.Attempt.N))
			return
		}
		got = append(got, string(l.Request.Op))
		if l.Request.Op != OpClear && (l.Request.ID != id || len(l.Request.Body) != 2<<20) {
			t.Errorf("found %s with %d bytes", l.Request.ID, len(l.Request.Body))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"done2", "replace", "clear", "done1", "push", "clear"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if last.Read != last.Total || last.Total == 0 {
		t.Errorf("in the end %+v", last)
	}

	stopped, stop := context.WithCancel(t.Context())
	n := 0
	err = Search(stopped, dir, Wanted{ID: id}, func(Progress) { stop() }, func(Found) { n++ })
	if !errors.Is(err, context.Canceled) || n > 1 {
		t.Errorf("after it was canceled: %d lines, %v", n, err)
	}
}
