package registry

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/wait"
)

// TestTopicsArePutTogether, all or none, with an audit entry each, as single puts have.
func TestTopicsArePutTogether(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		put(t, r, topic("first"))
		other := open(t, Options{DSN: dsn, Poll: time.Hour})
		const many = 1100 // needs more than one INSERT
		topics := make([]Topic, many)
		for i := range topics {
			topics[i] = topic(fmt.Sprintf("t%04d", i))
			if i%2 == 0 {
				topics[i].Secrets = []string{oneSecret}
			}
		}
		before := r.Snapshot().Revision
		done, err := r.PutTopics(t.Context(), "me", topics)
		if err != nil || len(done) != many ||
			slices.ContainsFunc(done, func(d Done) bool { return d != TopicCreated }) {
			t.Fatalf("%d of %d, %v", len(done), many, err)
		}
		read := watch(t, other)
		wait.For(t, "both processes to have all topics", func() bool { // a slow machine reads them later
			err := errors.Join(r.follow(t.Context()), other.follow(t.Context()))
			return err == nil && r.Snapshot().Revision == other.Snapshot().Revision
		})
		if slices.Contains(*read, any("*")) {
			t.Errorf("the other process reads everything: %.100v", *read)
		}
		for _, s := range []*Snapshot{r.Snapshot(), other.Snapshot()} {
			if s.Revision != before+many || s.Topics.Len() != many+1 || s.Notes.Len() != many/2 ||
				!sameState(s, full(t, r)) {
				t.Errorf("revision %d after %d, %d topics, %d notes", s.Revision, before, s.Topics.Len(), s.Notes.Len())
			}
		}
		if list, err := r.Audit(t.Context(), AuditFilter{Object: "topic/t0001"}); err != nil || len(list) != 1 ||
			list[0].Actor != "me" || list[0].Action != "put" {
			t.Errorf("the audit trail has %+v, %v", list, err)
		}

		some := []Topic{topic("t0001"), topic("t0003"), topic("new")}
		some[1].Title = "other"
		if done, err = r.PutTopics(t.Context(), "me", some); err != nil ||
			!slices.Equal(done, []Done{TopicUnchanged, TopicChanged, TopicCreated}) {
			t.Errorf("%v, %v", done, err)
		}
		some[0].Title, some[1].CallbackURL = "third", ""
		var field *FieldError
		if _, err := r.PutTopics(t.Context(), "me", some); !errors.As(err, &field) || field.Field != "callback_url" {
			t.Errorf("with an invalid topic: %v", err)
		}
		if got := full(t, r).Topics.Get("t0001"); got.Title != "" {
			t.Errorf("a part of them was stored: %+v", got)
		}
	})
}

// TestAnEditFindsWhatItExpects: the database decides, not the snapshot of the process that makes the edit.
func TestAnEditFindsWhatItExpects(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		ann, bob := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn})
		ctx := t.Context()
		x := topic("t")
		if _, err := ann.PutTopic(ctx, "ann", x, IfMatch("none")); !errors.Is(err, ErrChanged) {
			t.Errorf("of an unknown topic: %v", err)
		}
		if _, err := ann.PutTopic(ctx, "ann", x, IfNew); err != nil {
			t.Error(err)
		}
		seen := ann.Snapshot().Topics.Get("t").ETag()
		x.Secrets = []string{oneSecret}
		if _, err := bob.PutTopic(ctx, "bob", x, IfMatch("other", seen)); err != nil {
			t.Errorf("of a state that both have seen: %v", err)
		}
		x.Title = "ann's"
		if _, err := ann.PutTopic(ctx, "ann", x, IfMatch(seen)); !errors.Is(err, ErrChanged) {
			t.Errorf("of a topic that bob changed: %v", err)
		}
		if err := ann.DeleteTopic(ctx, "ann", "t", false, IfMatch(seen)); !errors.Is(err, ErrChanged) {
			t.Errorf("deletion of a topic that bob changed: %v", err)
		}
		if _, err := ann.PutTopic(ctx, "ann", x, IfNew); !errors.Is(err, ErrChanged) {
			t.Errorf("as a new topic: %v", err)
		}
		if err := ann.DeleteTopic(ctx, "ann", "t", false, IfMatch(bob.Snapshot().Topics.Get("t").ETag())); err != nil {
			t.Errorf("of the current state: %v", err)
		}
	})
}
