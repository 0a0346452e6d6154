package bulk

import (
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

func TestFilter(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	j := &store.Job{ID: "order-12", State: store.Delayed, DueAt: at, NextAt: at.Add(time.Hour),
		History: []store.Attempt{{Error: "Connection refused"}}}
	for name, c := range map[string]struct {
		filter Filter
		want   bool
	}{
		"all":          {Filter{}, true},
		"contains":     {Filter{ID: "der-1"}, true},
		"begins":       {Filter{ID: "^Order"}, true},
		"does not":     {Filter{ID: "^der"}, false},
		"its retry":    {Filter{Since: at.Add(time.Hour)}, true},
		"before it":    {Filter{Until: at.Add(time.Hour)}, false},
		"error":        {Filter{Error: "connection"}, true},
		"other errors": {Filter{Error: "timeout"}, false},
		"prefix only":  {Filter{ID: "^order", Error: "timeout"}, false},
	} {
		c.filter.State = store.Delayed
		if got := c.filter.Match(j); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if (Filter{State: store.Ready}).Match(j) {
		t.Error("a delayed job matches a filter for ready ones")
	}
}

func TestFilterOfDeadJobs(t *testing.T) {
	died := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	j := store.Job{Topic: "shop.close", ID: "Order-7", State: store.Dead, DeadReason: "gone", DeadAt: died,
		History: []store.Attempt{{Status: 410}}}
	for _, c := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, true}, {Filter{Error: "http 410"}, true}, {Filter{Error: "order-"}, false},
		{Filter{Status: 410}, true}, {Filter{Status: 500}, false}, {Filter{Topic: "shop.*"}, true},
		{Filter{Topic: "shop"}, false},
		{Filter{Reason: "gone"}, true}, {Filter{Reason: "attempts"}, false}, {Filter{Since: died}, true},
		{Filter{Since: died.Add(1)}, false}, {Filter{Until: died}, false}, {Filter{Until: died.Add(1)}, true},
	} {
		if got := c.f.Match(&j); got != c.want {
			t.Errorf("%+v matches: %v", c.f, got)
		}
	}
}

func TestNarrow(t *testing.T) {
	if (Filter{Topic: "a", State: store.Dead}).Narrow() || !(Filter{Topic: "a", Error: "x"}).Narrow() {
		t.Error("a filter is narrow when it excludes jobs of its topic and state")
	}
}

func TestWhyATaskStopped(t *testing.T) {
	old := Task{Error: "5 of 10 failed again"}
	if old.Why() != nil {
		t.Error("the text of an earlier version is not plain text")
	}
	is := Task{Error: storedError(fmt.Errorf("stage 1: %w", stop("task.full", 2_000_000)))}
	if why := is.Why(); why == nil || why.Code != "task.full" || fmt.Sprint(why.Args...) != "2000000" {
		t.Errorf("%s is read as %+v", is.Error, why)
	}
}

// TestTasksOverlap: tasks overlap if a job may match both, even if one covers all topics of a namespace.
func TestTasksOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b Filter
		want bool
	}{
		{Filter{Topic: "shop.a"}, Filter{Topic: "shop.a"}, true},
		{Filter{Topic: "shop.a"}, Filter{Topic: "shop.b"}, false},
		{Filter{Topic: "shop.*"}, Filter{Topic: "shop.a"}, true},
		{Filter{Topic: "shop.*"}, Filter{Topic: "shopping"}, false},
		{Filter{Topic: "shop.*"}, Filter{}, true},
		{Filter{Reason: "gone"}, Filter{Reason: "attempts"}, false},
	} {
		if c.a.overlaps(c.b) != c.want || c.b.overlaps(c.a) != c.want {
			t.Errorf("%+v and %+v overlap: want %t", c.a, c.b, c.want)
		}
	}
}
