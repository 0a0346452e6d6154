package alert

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/observe/relays"
)

func TestOutboxTablesAreWatched(t *testing.T) {
	t.Parallel()
	now := time.Now()
	relay := func(name string, ago time.Duration, r relays.Report) relays.Relay {
		return relays.Relay{Name: name, SeenAt: now.Add(-ago), Report: r}
	}
	found := judgeRelays([]relays.Relay{
		relay("fine", time.Second, relays.Report{OldestMS: 60_000, Waiting: 9}),
		relay("aside", time.Second, relays.Report{SetAside: 2}),
		relay("aside2", time.Second, relays.Report{SetAside: 3}),
		relay("late", time.Second, relays.Report{OldestMS: 400_000, Waiting: 7, Error: "refused"}),
		relay("gone", time.Hour, relays.Report{OldestMS: 400_000, Waiting: 1}),
	}, now)
	want := map[string]Cause{
		"relay_set_aside": {N: 5}, "relay_late": {N: 7, For: 400 * time.Second}, "relay_silent": {N: 1, For: time.Hour},
	}
	texts := map[string]string{"relay_set_aside": "aside, aside2", "relay_late": "late (refused)",
		"relay_silent": "gone"}
	if len(found) != len(want) {
		t.Fatalf("found %+v", found)
	}
	for _, f := range found {
		if w := want[f.Kind]; f.N != w.N || f.For != w.For || f.Text.Error() != texts[f.Kind] || f.Severity != Warning {
			t.Errorf("found %+v", f)
		}
	}
}
