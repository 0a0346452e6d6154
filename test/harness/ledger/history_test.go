package ledger

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// changed returns a change under a condition, and the ETag that it gave the job.
func changed(at float64, match, etag string) []Event {
	events := setting(Change, at, Acknowledged, 500, "")
	events[0].Match, events[0].ETag = match, etag
	return events
}

// TestPorcupineFindsPlantedFaults, and explains histories without one.
func TestPorcupineFindsPlantedFaults(t *testing.T) {
	events := slices.Concat[[]Event]
	pushed, delivered := push(Acknowledged), call(1, 1600, "a", Good)
	unanswered := setting(Push, 1000, Unknown, 500, "a")
	expired, flushed := lease(1, 1600, 2600, Bad), fault("redis flushed", 1700, 1900)
	spooled := setting(Push, 1000, Acknowledged, 0, "a")
	spooled[0].Status = 202
	slow := setting(Push, 1000, Acknowledged, 500, "a")
	slow[0].End = 1700
	for name, c := range map[string]struct {
		events []Event
		wrong  bool
	}{
		"delivered":             {events(pushed, delivered), false},
		"deleted":               {events(pushed, remove(Acknowledged)), false},
		"a deletion is lost":    {events(pushed, remove(Acknowledged), delivered), true},
		"its answer was lost":   {events(pushed, remove(Unknown), delivered), false},
		"deleted and then dead": {events(pushed, remove(Acknowledged), dead(422, "")), true},
		"pushed again after it": {
			events(pushed, remove(Acknowledged), replace(Acknowledged), call(1, 1800, "b", Good)), false},
		"an accepted job is lost":  {pushed, true},
		"a failed one is lost":     {events(pushed, call(1, 1600, "a", Bad)), true},
		"one without an answer is": {events(unanswered, call(1, 1600, "a", Bad)), false},
		"pushed late":              {events(unanswered, call(1, 900_000, "a", Good)), false},
		"spooled, and called late": {events(spooled, call(1, 900_000, "a", Good)), false},
		"spooled and lost":         {spooled, true},
		"invented":                 {delivered, true},
		"early":                    {events(pushed, call(1, 1400, "a", Good)), true},
		"an old body": {events(pushed, call(1, 1600, "a", Bad), replace(Acknowledged), call(2, 9000, "a", Good),
			call(3, 9100, "b", Good)), true},
		"reserved before it was replaced": {events(pushed, call(1, 1600, "a", Bad), replace(Acknowledged),
			call(2, 1800, "a", Good), call(3, 2000, "b", Good)), false},
		"only the old body":     {events(pushed, delivered, replace(Acknowledged)), true},
		"twice":                 {events(pushed, delivered, call(2, 9000, "a", Good)), true},
		"twice at a fault":      {events(pushed, delivered, fault("some fault", 1500, 1900), call(2, 9000, "a", Good)), false},
		"a doubled lease":       {events(pushed, expired, lease(2, 2500, 2700, Good)), true},
		"a lease that expired":  {events(pushed, expired, lease(2, 2600, 2700, Good)), false},
		"a lease that was lost": {events(pushed, expired, flushed, lease(2, 2500, 2700, Good)), false},
		"leased while its push was repeated": {events(slow, lease(1, 1600, 2600, Bad),
			fault("redis answers lost", 900, 1750), lease(2, 1700, 1800, Good)), false},
		"acked and leased again": {events(pushed, lease(1, 1600, 2600, Good), lease(2, 2700, 2800, Good)), true},
		"changed in turn": {events(pushed, changed(1100, "", "v1"), changed(1200, "v1", "v2"),
			call(1, 1800, "a", Good)), false},
		"a lost update": {events(pushed, changed(1100, "", "v1"), changed(1200, "v1", "v2"), changed(1300, "v1", "v3"),
			call(1, 1900, "a", Good)), true},
	} {
		t.Run(name, func(t *testing.T) {
			h := CheckHistories(c.events, time.Minute)
			if h.Checked != 1 || (len(h.Wrong) > 0) != c.wrong || len(h.Undecided) > 0 {
				t.Errorf("got %+v", h)
			}
		})
	}
}

// TestPorcupineIsBounded: a history that cannot be decided in time is named, and fails nothing.
func TestPorcupineIsBounded(t *testing.T) {
	h := CheckHistories(push(Acknowledged), 0)
	if len(h.Wrong) > 0 || h.Checked != 0 || strings.Join(h.Undecided, "") != "t/1" {
		t.Errorf("got %+v", h)
	}
}
