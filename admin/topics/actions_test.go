package topics_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/registry"
)

func TestAPauseHasABanner(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("ops").Post("/topics/shop.close/pause", "reason", "the bank <b>sleeps</b>")
	if s.Registry.Snapshot().Topics.Get("shop.close").State != registry.TopicPaused {
		t.Error("it is not paused")
	}
	body := s.Shows("/topics/shop.close", "the bank &lt;b&gt;sleeps")
	s.Shows("/topics", "the bank &lt;b&gt;sleeps")
	if !strings.Contains(body, "user/ops") {
		t.Error("the banner does not say who paused it")
	}
	s.Post("/topics/shop.close/resume")
	if body := s.Shows("/topics/shop.close"); strings.Contains(body, "sleeps") {
		t.Error("the reason stays after the pause")
	}
	if status, _ := s.As("look").Post("/topics/shop.close/pause"); status != http.StatusForbidden {
		t.Errorf("a viewer may pause: %d", status)
	}
}

// TestAPauseDoesNotTakeBackWhatSomebodyElseDid: a topic that was taken offline since the page was opened is neither
// paused nor resumed by it.
func TestAPauseDoesNotTakeBackWhatSomebodyElseDid(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("root")
	s.Shows("/topics/shop.close", `name="was" value="active"`)
	s.Post("/topics/shop.close/offline", "was", "active")
	s.As("ops")
	for was, do := range map[string]string{"active": "pause", "paused": "resume"} {
		_, body := s.Post("/topics/shop.close/"+do, "was", was)
		if state := s.Registry.Snapshot().Topics.Get("shop.close").State; state != registry.TopicOffline ||
			!strings.Contains(body, "was changed in the meantime") {
			t.Errorf("%s from an outdated page: the topic is %s", do, state)
		}
	}
}

// TestAnEditOfAnotherHostIsNotLost: a change that another host just made, and this one has not seen yet, survives a
// pause here, and the form shows it as the other version.
func TestAnEditOfAnotherHostIsNotLost(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("root")
	form := admintest.TopicForm("name", "shop.close", "title", "Mine", "etag",
		s.Registry.Snapshot().Topics.Get("shop.close").ETag())
	other, err := registry.Open(registry.Options{DSN: "sqlite:" + s.Registry.File, SecretKey: make([]byte, 32)})
	admintest.Must(t, err)
	t.Cleanup(func() { _ = other.Close() })
	change := func(do func(*registry.Topic)) {
		t.Helper()
		other.Refresh(t.Context())
		next := *other.Snapshot().Topics.Get("shop.close")
		do(&next)
		_, err := other.PutTopic(t.Context(), "test", next)
		admintest.Must(t, err)
	}
	now := func() *registry.Topic {
		other.Refresh(t.Context())
		return other.Snapshot().Topics.Get("shop.close")
	}
	change(func(t *registry.Topic) { t.Title = "Theirs" })
	if status, body := s.Post("/topics/shop.close/pause"); status != http.StatusOK {
		t.Errorf("a pause is %d\n%s", status, body)
	}
	if x := now(); x.Title != "Theirs" || x.State != registry.TopicPaused {
		t.Errorf("after a pause here the topic is %+v", x)
	}
	change(func(t *registry.Topic) { t.Title = "Newest" })
	if status, body := s.Post("/topics/shop.close/edit", form...); status != http.StatusConflict ||
		!strings.Contains(body, "Newest") || !strings.Contains(body, "Mine") {
		t.Errorf("the form answers %d, without both versions", status)
	}
}

// TestAPauseWithAReasonThatIsTooLongIsAPause: an operator who stops callbacks in a hurry must not get the form back.
func TestAPauseWithAReasonThatIsTooLongIsAPause(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("ops")
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL = "http://127.0.0.1/"
	_, err := s.Registry.PutTopic(t.Context(), "test", topic)
	admintest.Must(t, err)
	status, body := s.Post("/topics/shop.close/pause", "reason", strings.Repeat("x", 10_000))
	if status != http.StatusOK || !strings.Contains(body, "alert-warning") ||
		s.Registry.Snapshot().Topics.Get("shop.close").State != registry.TopicPaused {
		t.Errorf("%d\n%s", status, body)
	}
	s.Post("/topics/shop.close/pause", "reason", "  a deploy\t")
	if note := s.Registry.Snapshot().Notes.Get("shop.close"); note.PauseReason != "a deploy" ||
		note.PausedBy != "user/ops" {
		t.Errorf("the note is %+v", note)
	}
	until := time.Now().Add(2 * time.Hour)
	admintest.Must(t, s.Registry.PauseTopic(t.Context(), "test", "shop.close", registry.Pause{Until: until}))
	for _, page := range []string{"/topics", "/topics/shop.close"} {
		if _, body := s.Get(page); !strings.Contains(body, "in 2h") {
			t.Errorf("%s does not show when the pause ends", page)
		}
	}
	if status, _ := s.Post("/topics/none/pause"); status != http.StatusNotFound {
		t.Errorf("an unknown topic: %d", status)
	}
}

// clearing is an activity whose errors can be cleared, or not.
type clearing struct {
	admintest.NoActivity
	cleared *atomic.Value // the topic
	err     error
}

func (c clearing) ClearErrors(_ context.Context, topic string) error {
	c.cleared.Store(topic)
	return c.err
}

func TestErrorsOfATopicAreCleared(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{http.StatusOK: nil, http.StatusInternalServerError: errors.New("no shard")} {
		var cleared atomic.Value
		s := admintest.Open(t, func(o *admin.Options) { o.Activity = clearing{cleared: &cleared, err: err} }).As("ops")
		topic := registry.NewTopic("shop.close")
		topic.CallbackURL = "http://127.0.0.1/"
		_, put := s.Registry.PutTopic(t.Context(), "test", topic)
		admintest.Must(t, put)
		if status, _ := s.Post("/topics/shop.close/errors/clear"); status != want || cleared.Load() != "shop.close" {
			t.Errorf("with %v: %d, cleared %q", err, status, cleared.Load())
		}
	}
}
