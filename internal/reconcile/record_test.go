package reconcile

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
)

func TestAcceptedLinesDescribeStoredJobs(t *testing.T) {
	due := time.UnixMilli(1767323045678)
	job, replaced := store.Job{
		Topic: "t", ID: "stored", Shard: "main", DueAt: due, CreatedAt: due.Add(-time.Hour), Revision: 7,
		Priority: store.High, TTR: time.Second, MaxAttempts: 3,
	}, store.Job{Topic: "t", ID: "replaced"}
	kept := store.Job{Topic: "t", ID: "kept", Shard: "main", DueAt: due, CreatedAt: due.Add(-2 * time.Hour),
		Priority: store.Low, Body: []byte("it")}
	push := func(id string, od store.OnDuplicate) store.Push {
		return store.Push{Topic: "t", ID: id, Body: []byte("{}"), Priority: store.High, TTR: time.Second,
			MaxAttempts: 3,
			OnDuplicate: od,
			Via:         "grape"}
	}
	lines := acceptedLines(
		[]store.Push{push("stored", store.Keep), push("kept", store.Keep), push("replaced", store.Replace),
			push("failed", store.Refuse), push("finished", store.Keep)},
		[]store.Result{{Job: job}, {Job: kept, Duplicate: true}, {Job: replaced, Duplicate: true},
			{Err: errors.New("no")},
			// must have no line: it would be replayed
			{Job: store.Job{ID: "finished", State: store.Finished}, Duplicate: true}})
	if len(lines) != 3 {
		t.Fatalf("lines %+v", lines)
	}
	want := journal.RequestLine{
		Op: journal.OpPush, Topic: "t", ID: "stored", Shard: "main", DueAt: due, CreatedAt: due.Add(-time.Hour),
		Priority: "high", TTR: time.Second, MaxAttempts: 3, Body: []byte("{}"), Revision: 7, Via: "grape",
	}
	if !reflect.DeepEqual(lines[0], want) {
		t.Errorf("line %+v\nwant %+v", lines[0], want)
	}
	want = journal.RequestLine{
		Op: journal.OpDuplicate, Topic: "t", ID: "kept", Shard: "main", DueAt: due, CreatedAt: due.Add(-2 * time.Hour),
		Priority: "low",
		Body:     []byte("it"), Via: "grape",
	}
	if !reflect.DeepEqual(lines[1], want) {
		t.Errorf("line %+v\nwant %+v, the job that exists", lines[1], want)
	}
	if lines[2].Op != journal.OpReplace || lines[2].ID != "replaced" {
		t.Errorf("third line %+v", lines[2])
	}
}

func TestALineOfAChangeNeedsNoOther(t *testing.T) {
	due := time.UnixMilli(1767323045678)
	j := store.Job{Topic: "t", ID: "x", Shard: "main", DueAt: due, CreatedAt: due.Add(-time.Hour),
		ChangedAt: due.Add(-time.Minute),
		Priority:  store.Low, TTR: time.Second, MaxAttempts: 3, ContentType: "text/plain", Body: []byte("it"),
		Revision: 9,
		Via:      "grape"}
	whole := journal.RequestLine{Topic: "t", ID: "x", Shard: "main", DueAt: due, CreatedAt: due.Add(-time.Hour),
		ChangedAt: due.Add(-time.Minute),
		Priority:  "low", TTR: time.Second, MaxAttempts: 3, ContentType: "text/plain", Body: []byte("it"), Revision: 9,
		Via: "grape"}
	name := journal.RequestLine{Topic: "t", ID: "x", Shard: "main", CreatedAt: due.Add(-time.Hour), Revision: 9,
		Via: "grape"}
	for kind, want := range map[store.ChangeKind]journal.RequestLine{
		store.Changed: whole, store.MadeDue: whole, store.MovedIn: whole,
		store.Redriven: whole, store.Deleted: name, store.DeadDeleted: name, store.MovedOut: name,
	} {
		want.Op = ops[kind]
		if got := changedLines(kind, []store.Job{j}); !reflect.DeepEqual(got, []journal.RequestLine{want}) {
			t.Errorf("%s: %+v\nwant %+v", kind, got, want)
		}
	}
}

type lines struct {
	requests []journal.RequestLine
	attempts []journal.AttemptLine
}

func (l *lines) Requests(list []journal.RequestLine) error {
	l.requests = append(l.requests, list...)
	return nil
}

func (l *lines) Attempts(list []journal.AttemptLine) error {
	l.attempts = append(l.attempts, list...)
	return nil
}

// full is a journal whose file of attempts cannot be written.
type full struct{ lines }

func (*full) Attempts([]journal.AttemptLine) error { return errors.New("no descriptor is left") }

// TestNoEndOfALeaseWaitsForTheJournal: it was carried out, and the worker has to know.
func TestNoEndOfALeaseWaitsForTheJournal(t *testing.T) {
	var got full
	err := Recorder{&got}.Ended([]store.Ended{
		{Verb: store.Done, Was: store.Running}, {Verb: store.Done, Was: store.Ready},
	})
	if err != nil || len(got.requests) != 1 {
		t.Errorf("%v, %d lines of requests", err, len(got.requests))
	}
}

// TestAJobThatWasDeletedWithItsGroupIsRecordedAsThat, however its last lease ended.
func TestAJobThatWasDeletedWithItsGroupIsRecordedAsThat(t *testing.T) {
	for _, v := range []store.Verb{store.Fail, store.Bury, store.Release, store.Retry, store.Snooze} {
		var got lines
		err := Recorder{&got}.Ended([]store.Ended{{Ref: store.Ref{Topic: "t", ID: "x"}, Verb: v, Was: store.Running}})
		if err != nil || len(got.requests) != 1 || got.requests[0].Op != journal.OpDelete || len(got.attempts) != 0 {
			t.Errorf("%s: %+v, %+v, %v", v, got.requests, got.attempts, err)
		}
	}
}

func TestOutcomesOfWorkersAreRecorded(t *testing.T) {
	at := time.UnixMilli(1767323045678)
	ended := func(v store.Verb, was, is store.State) store.Ended {
		return store.Ended{
			Ref: store.Ref{Topic: "t", ID: "x"}, Shard: "main", Verb: v, Was: was, State: is, CreatedAt: at, Attempt: 2,
			StartedAt: at, Took: time.Second, Error: "why", Revision: 5, Reason: "because", Via: "grape",
			Result: `{"n":1}`,
		}
	}
	failed := ended(store.Done, store.Running, "")
	failed.Err = store.ErrLease
	var got lines
	err := Recorder{&got}.Ended([]store.Ended{
		ended(store.Done, store.Running, ""), ended(store.Fail, store.Running, store.Delayed),
		ended(store.Fail, store.Running, store.Dead), ended(store.Bury, store.Running, store.Dead), failed,
		ended(store.Release, store.Running, store.Ready), ended(store.Extend, store.Running, store.Running),
		ended(store.Release, store.Running, store.Ready), ended(store.Done, store.Ready, ""),
		ended(store.Done, store.Dead, ""),
		ended(store.Release, store.Dead, store.Ready), ended(store.Release, store.Ready, store.Ready),
		ended(store.Release, store.Dead, store.Ready),
	})
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []journal.Outcome
	for _, l := range got.attempts {
		outcomes = append(outcomes, l.Outcome)
		if l.Result != `{"n":1}` || l.Topic != "t" || l.ID != "x" || !l.CreatedAt.Equal(at) || l.N != 2 ||
			l.Took != time.Second || l.Shard != "main" ||
			l.Revision != 5 || (l.Outcome == journal.Dead) != (l.Reason == "because") {
			t.Errorf("attempt %+v", l)
		}
	}
	if want := []journal.Outcome{journal.Done, journal.Retry, journal.Dead, journal.Dead}; !reflect.DeepEqual(outcomes,
		want) {
		t.Errorf("outcomes %v; want %v", outcomes, want)
	}
	var ops []journal.Op
	for _, l := range got.requests {
		ops = append(ops, l.Op)
		if l.Via != "grape" || l.Revision != 5 || !l.CreatedAt.Equal(at) {
			t.Errorf("request %+v", l)
		}
	}
	redrive := journal.OpRedrive
	if want := []journal.Op{journal.OpDelete, journal.OpDrop, redrive, redrive, redrive}; !reflect.DeepEqual(
		ops, want) {
		t.Errorf("ops %v; want %v", ops, want)
	}
}
