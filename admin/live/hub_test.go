package live

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
)

func TestASourceRunsOnceForAllReadersAndEndsWithTheLast(t *testing.T) {
	t.Parallel()
	var runs, rendered atomic.Int64
	stopped := make(chan struct{})
	h := NewHub(func(language, _ string, _ any) (string, error) {
		rendered.Add(1)
		return language, nil
	}, slog.New(slog.DiscardHandler))
	defer h.Close()
	h.Register("s", Source{Every: time.Hour, Partial: "x", Data: func(ctx context.Context, arg string) (any, error) {
		runs.Add(1)
		context.AfterFunc(ctx, func() { close(stopped) })
		return arg, nil
	}})
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

// TestAStreamIsNotForged: a carriage return in what somebody wrote ends no line of a stream, or an event of theirs
// would follow.
func TestAStreamIsNotForged(t *testing.T) {
	t.Parallel()
	got := event("topic:a\r\revent: strip", "<p>a\r\revent: strip\rdata: forged\r\nb\n\nevent: strip\ndata: x</p>")
	want := "event: topic:a  event: strip\ndata: <p>a\ndata: \ndata: event: strip\ndata: data: forged\ndata: b\ndata: \ndata: event: strip\ndata: data: x</p>\n\n"
	if got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}
