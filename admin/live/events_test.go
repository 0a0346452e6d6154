package live_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/store"
)

func TestTheStripIsLive(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("look")
	s.Queue.ByTopic = map[string]store.Stats{"a": {Ready: 1234567}}
	res, err := s.Client.Get(s.URL + "/events?on=strip,nothing")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("the type is %q", kind)
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "1,234,567") {
			return
		}
	}
	t.Errorf("the stream ended: %v", lines.Err())
}

func TestStrangersGetNoStream(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	if status, _ := s.Get("/events?on=strip"); status != http.StatusNoContent {
		t.Errorf("got %d", status)
	}
}
