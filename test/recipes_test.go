package test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
)

// TestRecipes runs the commands of docs/guides/recipes.md in their order, and finds what the page says that happens.
func TestRecipes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var calls []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, r.Header.Get("Wakecall-Id")+" "+string(body))
		refunds := 0
		for _, c := range calls {
			if strings.Contains(c, "refund") {
				refunds++
			}
		}
		if r.URL.Path == "/refund.check" && refunds < 3 {
			w.Header().Set("Retry-After", "300")
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(srv.Close)
	page, err := os.ReadFile("../docs/guides/recipes.md")
	must(t, err)
	text := strings.ReplaceAll(string(page), "http://127.0.0.1:8000", srv.URL)
	refund := `42 {"refund":42}`
	wants := []string{
		"", "", "", "", "", "", `42-1 {"order":42}`, "", "", strings.Join([]string{refund, refund, refund}, "; "), "",
		`page-7 {"version":2}`, "", "", "", "7-1 1; 7-2 2",
	}
	commands := fences(text, "sh")
	if len(commands) != len(wants) {
		t.Fatalf("the page has %d commands; this test knows what %d do", len(commands), len(wants))
	}
	reader := newReader(t)
	run := func(command, end string) []string { // and returns what was called meanwhile
		mu.Lock()
		calls = nil
		mu.Unlock()
		reader.types(":\n"+command+"\necho "+end, end)
		mu.Lock()
		defer mu.Unlock()
		return calls
	}
	t.Cleanup(func() { run("kill %1; wait", "stopped") })
	for n, command := range commands {
		calls := run(command, fmt.Sprint("ended-", n))
		if strings.Contains(command, "168h") {
			if len(calls) != 7 {
				t.Errorf("in a week: %s", calls)
			}
			continue
		}
		if got := strings.Join(calls, "; "); got != wants[n] {
			t.Errorf("after\n%s\ncalled %s; want %s", command, got, wants[n])
		}
	}
}
