package registry

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

func TestPauseTopic(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r, ctx := open(t, Options{DSN: dsn}), t.Context()
		put(t, r, topic("t"))
		until := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		for range 2 { // the second time changes nothing
			if err := r.PauseTopic(ctx, "ann", "t", Pause{"stock count", until}); err != nil {
				t.Fatal(err)
			}
		}
		note := r.Snapshot().Notes.Get("t")
		if r.Snapshot().Topics.Get("t").State != TopicPaused || note.PauseReason != "stock count" ||
			note.PausedBy != "ann" || !note.PausedUntil.Equal(until) {
			t.Errorf("the note is %+v", note)
		}
		if err := r.SetPauseReason(ctx, "bob", "t", "longer count"); err != nil {
			t.Fatal(err)
		}
		if got := r.Snapshot().Notes.Get("t").PausedUntil; !got.Equal(until) {
			t.Errorf("another reason changed the end to %s", got)
		}
		if err := r.PauseTopic(ctx, "bob", "t", Pause{}); err != nil {
			t.Fatal(err)
		}
		if note := r.Snapshot().Notes.Get("t"); !note.PausedUntil.IsZero() || note.PauseReason != "" {
			t.Errorf("a pause without an end has the note %+v", note)
		}
		for range 2 {
			if err := r.ResumeTopic(ctx, "ann", "t"); err != nil {
				t.Fatal(err)
			}
		}
		if note := r.Snapshot().Notes.Get("t"); r.Snapshot().Topics.Get("t").State != TopicActive ||
			note.PausedBy != "" || !note.PausedAt.IsZero() {
			t.Errorf("a resumed topic has the note %+v", note)
		}
		trail, err := r.Audit(ctx, AuditFilter{Object: "topic/t"})
		if err != nil || len(trail) != 5 { // put, pause, note, pause, resume
			t.Errorf("the trail is %+v, %v", trail, err)
		}
		x := topic("t")
		x.State = TopicOffline
		put(t, r, x)
		if err := r.PauseTopic(ctx, "ann", "t", Pause{}); !errors.Is(err, ErrOffline) {
			t.Errorf("pausing an offline topic: %v", err)
		}
		if err := r.PauseTopic(ctx, "ann", "none", Pause{}); !errors.Is(err, ErrNoTopic) {
			t.Errorf("pausing no topic: %v", err)
		}
		if err := r.PauseTopic(ctx, "ann", "t", Pause{Reason: strings.Repeat("x", 501)}); !errors.As(err,
			new(*FieldError)) {
			t.Errorf("a long reason: %v", err)
		}
	})
}

// TestOneHostEndsAPause, once, also after a restart, and only if the pause was neither ended nor extended meanwhile.
func TestOneHostEndsAPause(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		ctx := t.Context()
		first := open(t, Options{DSN: dsn})
		for _, name := range []string{"ends", "extended", "offline", "endless"} {
			put(t, first, topic(name))
		}
		end := time.Now().Add(time.Minute)
		for name, until := range map[string]time.Time{
			"ends": end, "extended": end, "offline": end, "endless": {},
		} {
			if err := first.PauseTopic(ctx, "ann", name, Pause{Until: until}); err != nil {
				t.Fatal(err)
			}
		}
		hosts := []*Registry{first, open(t, Options{DSN: dsn, Poll: time.Hour}),
			open(t, Options{DSN: dsn, Poll: time.Hour})}
		if err := first.EndPauses(ctx, end.Add(-time.Second)); err != nil ||
			first.Snapshot().Topics.Get("ends").State != TopicPaused {
			t.Errorf("it ended too early: %v", err)
		}
		if err := first.PauseTopic(ctx, "ann", "extended", Pause{Until: end.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		x := *first.Snapshot().Topics.Get("offline")
		x.State = TopicOffline
		put(t, first, x)
		var wg sync.WaitGroup
		errs := make([]error, len(hosts))
		for i, r := range hosts { // the others have not read the last changes
			wg.Go(func() { errs[i] = r.EndPauses(ctx, end.Add(time.Millisecond)) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		first.Refresh(ctx)
		eventually(t, "the pause has ended", func() bool {
			return first.Snapshot().Topics.Get("ends").State == TopicActive
		})
		for name, want := range map[string]TopicState{
			"ends": TopicActive, "extended": TopicPaused, "offline": TopicOffline, "endless": TopicPaused,
		} {
			if got := first.Snapshot().Topics.Get(name).State; got != want {
				t.Errorf("%s is %s", name, got)
			}
		}
		trail, err := first.Audit(ctx, AuditFilter{Actor: "end of pause"})
		if err != nil || len(trail) != 1 || trail[0].Action != "resume" || trail[0].Object != "topic/ends" {
			t.Errorf("the trail is %+v, %v", trail, err)
		}
	})
}
