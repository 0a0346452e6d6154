package app

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/server"
)

func TestAcceptedLinesAreOfWhatWasStored(t *testing.T) {
	due := time.UnixMilli(1767323045678)
	job, replaced := queue.Job{ID: "stored", Shard: "main", DueAt: due, CreatedAt: due.Add(-time.Hour)}, queue.Job{ID: "replaced"}
	kept := queue.Job{Topic: "t", ID: "kept", Shard: "main", DueAt: due, CreatedAt: due.Add(-2 * time.Hour), Priority: queue.Low, Body: []byte("it")}
	push := func(id string, od queue.OnDuplicate) queue.Push {
		return queue.Push{Topic: "t", ID: id, Body: []byte("{}"), Priority: queue.High, TTR: time.Second, MaxAttempts: 3, OnDuplicate: od}
	}
	lines := acceptedLines(
		[]queue.Push{push("of which the shard made another", queue.Keep), push("kept", queue.Keep), push("replaced", queue.Replace), push("failed", queue.Refuse)},
		[]queue.Result{{Job: job}, {Job: kept, Duplicate: true}, {Job: replaced, Duplicate: true}, {Err: errors.New("no")}})
	if len(lines) != 3 {
		t.Fatalf("lines %+v", lines)
	}
	want := journal.RequestLine{
		Op: journal.OpPush, Topic: "t", ID: "stored", Shard: "main", DueAt: due, CreatedAt: due.Add(-time.Hour), Priority: "high",
		TTR: time.Second, MaxAttempts: 3, Body: []byte("{}"),
	}
	if !reflect.DeepEqual(lines[0], want) {
		t.Errorf("line %+v\nwant %+v", lines[0], want)
	}
	want = journal.RequestLine{
		Op: journal.OpDuplicate, Topic: "t", ID: "kept", Shard: "main", DueAt: due, CreatedAt: due.Add(-2 * time.Hour), Priority: "low", Body: []byte("it"),
	}
	if !reflect.DeepEqual(lines[1], want) {
		t.Errorf("line %+v\nwant %+v, as it lives", lines[1], want)
	}
	if lines[2].Op != journal.OpReplace || lines[2].ID != "replaced" {
		t.Errorf("third line %+v", lines[2])
	}
}

func TestRecordLines(t *testing.T) {
	body := []byte("new")
	due := time.UnixMilli(1767323045678)
	for name, tt := range map[string]struct {
		record server.Record
		want   []journal.RequestLine
	}{
		"delete, which the queue records": {server.Record{Op: server.OpDelete, Topic: "t", ID: "x", Count: 1}, nil},
		"change": {
			server.Record{Op: server.OpChange, Topic: "t", ID: "x", Count: 1, Change: &queue.Change{Body: &body}, Job: &queue.Job{DueAt: due, Priority: queue.Low}},
			[]journal.RequestLine{{Op: journal.OpChange, Topic: "t", ID: "x", DueAt: due, Priority: "low", Body: body}},
		},
		"dead by ids": {
			server.Record{Op: server.OpRetryDead, Topic: "t", IDs: []string{"a", "b"}, Count: 2},
			[]journal.RequestLine{{Op: journal.OpRedrive, Topic: "t", ID: "a"}, {Op: journal.OpRedrive, Topic: "t", ID: "b"}},
		},
		"the oldest dead": {
			server.Record{Op: server.OpDeleteDead, Topic: "t", Limit: 10, Count: 7}, []journal.RequestLine{{Op: journal.OpDrop, Topic: "t", Count: 7}},
		},
		"a topic": {server.Record{Op: server.OpDrop, Topic: "t", Count: 9}, []journal.RequestLine{{Op: journal.OpClear, Topic: "t", Count: 9}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := recordLines(tt.record); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}
