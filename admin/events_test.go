package admin

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/queue"
)

func TestTheStripIsLive(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("look")
	s.queue.stats = map[string]queue.Stats{"a": {Ready: 1234567}}
	res, err := s.client.Get(s.url + "/events?on=strip,nothing")
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
	s := open(t, nil)
	if status, _ := s.get("/events?on=strip"); status != http.StatusNoContent {
		t.Errorf("got %d", status)
	}
}

func TestASourceRunsOnceForAllReadersAndEndsWithTheLast(t *testing.T) {
	t.Parallel()
	var runs, rendered atomic.Int64
	stopped := make(chan struct{})
	h := newHub(func(language, _ string, _ any) (string, error) {
		rendered.Add(1)
		return language, nil
	}, slog.New(slog.DiscardHandler))
	defer h.close()
	h.sources["s"] = source{every: time.Hour, partial: "x", data: func(ctx context.Context, arg string) (any, error) {
		runs.Add(1)
		context.AfterFunc(ctx, func() { close(stopped) })
		return arg, nil
	}}
	var leaves []func()
	for _, language := range []string{"en", "zh-Hans", "en"} {
		r, leave, err := h.join(language, []string{"s:x"})
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
		<-r.tick
		if got := r.take(); len(got) != 1 || got[0] != (message{"s:x", language}) {
			t.Errorf("got %v", got)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("the source ran %d times", runs.Load())
	}
	for _, leave := range leaves {
		leave()
	}
	<-stopped
	if len(h.feeds) != 0 || h.streams != 0 {
		t.Errorf("%d feeds and %d streams are left", len(h.feeds), h.streams)
	}
}
