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
	h.Register("s", time.Hour, "x", func(ctx context.Context, arg string) (any, error) {
		runs.Add(1)
		context.AfterFunc(ctx, func() { close(stopped) })
		return arg, nil
	})
	var leaves []func()
	for _, language := range []string{"en", "zh-Hans", "en"} {
		r, leave, err := h.join("ann", language, []string{"s:x"})
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
	if len(h.feeds) != 0 || len(h.streams) != 0 {
		t.Errorf("%d feeds and the streams %v remain", len(h.feeds), h.streams)
	}
}

// TestAStreamIsNotForged: a carriage return in user input does not end a line of a stream; otherwise a forged event
// could follow.
func TestAStreamIsNotForged(t *testing.T) {
	t.Parallel()
	got := event("topic:a\r\revent: strip", "<p>a\r\revent: strip\rdata: forged\r\nb\n\nevent: strip\ndata: x</p>")
	want := "event: topic:a  event: strip\ndata: <p>a\ndata: \ndata: event: strip\ndata: data: forged\n" +
		"data: b\ndata: " +
		"\ndata: event: strip\ndata: data: x</p>\n\n"
	if got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

// TestAUserLeavesStreamsToOthers: a user with the maximum number of streams blocks no other user.
func TestAUserLeavesStreamsToOthers(t *testing.T) {
	t.Parallel()
	h := NewHub(nil, slog.New(slog.DiscardHandler))
	defer h.Close()
	var leaves []func()
	for {
		_, leave, err := h.join("greedy", "en", nil)
		if err != nil {
			break
		}
		leaves = append(leaves, leave)
	}
	if len(leaves) != maxOfUser {
		t.Errorf("one user has %d streams", len(leaves))
	}
	if _, _, err := h.join("ann", "en", nil); err != nil {
		t.Errorf("another user: %v", err)
	}
	leaves[0]()
	if _, _, err := h.join("greedy", "en", nil); err != nil {
		t.Errorf("after a stream was closed: %v", err)
	}
}

// TestANewReaderGetsTheTextBeingRendered, not only the previous text, which may not change again for a long time.
func TestANewReaderGetsTheTextBeingRendered(t *testing.T) {
	t.Parallel()
	var h *Hub
	var late *reader
	h = NewHub(func(_, _ string, data any) (string, error) {
		if data == "new" && late == nil {
			var err error
			if late, _, err = h.join("bob", "en", []string{"s"}); err != nil {
				t.Error(err)
			}
		}
		return data.(string), nil
	}, slog.New(slog.DiscardHandler))
	defer h.Close()
	h.Register("s", time.Hour, "x", func(context.Context, string) (any, error) { return "old", nil })
	r, _, err := h.join("ann", "en", []string{"s"})
	if err != nil {
		t.Fatal(err)
	}
	<-r.tick
	r.take()
	h.publish("s", h.sources["s"], h.feeds["s"], "new")
	if got := late.take(); len(got) != 1 || got[0].text != "new" {
		t.Errorf("the new reader got %v", got)
	}
}
