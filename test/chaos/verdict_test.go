package chaos

import (
	"slices"
	"strings"
	"testing"
)

// TestTheVerdictFindsFaults: a verdict that can never be negative is worthless.
func TestTheVerdictFindsFaults(t *testing.T) {
	push := func(result string) event {
		return event{Kind: evPush, Topic: "t", ID: "1", At: 1000, End: 1010, Result: result, SetsDue: true,
			DelayMS: 500,
			Body:    "a"}
	}
	change := func(result string, delay float64) event {
		return event{Kind: evChange, Topic: "t", ID: "1", At: 1100, End: 1110, Result: result, SetsDue: true,
			DelayMS: delay,
			Body:    "b"}
	}
	call := func(n int, at float64, body string) event {
		return event{Kind: evCall, Topic: "t", ID: "1", At: at, Call: n, Body: body}
	}
	answer := func(n int, at float64, result string) event {
		return event{Kind: evAnswer, Topic: "t", ID: "1", At: at, Call: n, Result: result}
	}
	remove := func(result string) event {
		return event{Kind: evDelete, Topic: "t", ID: "1", At: 1200, End: 1210, Result: result}
	}
	replace := func(result string) event {
		return event{Kind: evPush, Topic: "t", ID: "1", At: 1700, End: 1710, Result: result, SetsDue: true, Body: "b"}
	}
	redrive := event{Kind: evRedrive, Topic: "t", ID: "1", At: 1700, End: 1710, Result: acknowledged, SetsDue: true}
	dead := event{Kind: evDead, Topic: "t", ID: "1", Status: 422}
	died := []event{push(acknowledged), call(1, 1600, "a"), answer(1, 1601, bad)}
	delivered := []event{push(acknowledged), call(1, 1600, "a"), answer(1, 1601, good)}
	fault := event{Kind: evFault, Fault: "some fault", At: 1700, End: 1800, Calm: 1900}
	take := func(n int, at, held float64, result string) []event {
		e := event{Kind: evCall, Topic: "t", ID: "1", At: at, Call: n, Body: "a", Shard: "redis-1"}
		return []event{e, {Kind: evAnswer, Topic: "t", ID: "1", At: held, Call: n, Result: result, Held: held}}
	}
	worked := func(more ...[]event) []event { return append([]event{push(acknowledged)}, slices.Concat(more...)...) }
	for name, c := range map[string]struct {
		events []event
		want   string
	}{
		"delivered":                {[]event{push(acknowledged), call(1, 1600, "a"), answer(1, 1601, good)}, ""},
		"unknown and never called": {[]event{push(unknown)}, ""},
		"unknown and called":       {[]event{push(unknown), call(1, 1600, "a"), answer(1, 1601, good)}, ""},
		"dead": {[]event{push(acknowledged), call(1, 1600, "a"), answer(1, 1601, bad),
			{Kind: evDead, Topic: "t", ID: "1"}}, ""},
		"deleted":         {[]event{push(acknowledged), remove(acknowledged)}, ""},
		"perhaps deleted": {[]event{push(acknowledged), remove(unknown)}, ""},
		"never called":    {[]event{push(acknowledged)}, "LOST"},
		"called without success": {[]event{push(acknowledged), call(1, 1600, "a"), answer(1, 1601, bad)},
			"LOST"},
		"a refused delete deletes nothing": {[]event{push(acknowledged), remove(refused)}, "LOST"},
		"called though refused": {[]event{push(refused), call(1, 1600, "a"), answer(1, 1601, good)},
			"INVENTED"},
		"called and never pushed": {[]event{call(1, 1600, "a"), answer(1, 1601, good)}, "INVENTED"},
		"early": {[]event{push(acknowledged), call(1, 1499, "a"), answer(1, 1601, good)},
			"EARLY"},
		"before the due time of its header": {[]event{push(acknowledged),
			{Kind: evCall, Topic: "t", ID: "1", At: 1600, DueAt: 1601, Call: 1, Body: "a"}, answer(1, 1601, good)},
			"EARLY"},
		"before its changed due time": {[]event{push(acknowledged), change(acknowledged, 5000), call(1, 1600, "b"),
			answer(1, 1601, good)}, "EARLY"},
		"a change that may not have been": {[]event{push(acknowledged), change(unknown, 5000), call(1, 1600, "a"),
			answer(1, 1601, good)}, ""},
		"with its old body": {[]event{push(acknowledged), change(acknowledged, 0), call(1, 1600, "a"),
			answer(1, 1601, good)}, "BODY"},
		"after its delete": {[]event{push(acknowledged), remove(acknowledged), call(1, 1600, "a"),
			answer(1, 1601, good)}, "AFTER DELETE"},
		"twice": {[]event{push(acknowledged), call(1, 1600, "a"), answer(1, 1601, good),
			call(2, 1800, "a"), answer(2, 1801, good)}, "TWICE"},
		"twice at a fault": {[]event{push(acknowledged), call(1, 1600, "a"), answer(1, 1601, good), fault,
			call(2, 1800, "a"), answer(2, 1801, good)}, ""},
		"again after a failure": {[]event{push(acknowledged), call(1, 1600, "a"), answer(1, 1601, bad),
			call(2, 1800, "a"), answer(2, 1801, good)}, ""},
		"delivered, and its replacement too": {slices.Concat(delivered,
			[]event{replace(acknowledged), call(2, 1800, "b"), answer(2, 1801, good)}), ""},
		"only what was replaced is delivered": {slices.Concat(delivered, []event{replace(acknowledged)}), "LOST"},
		"reserved just before it was replaced": {slices.Concat(died,
			[]event{replace(acknowledged), call(2, 1950, "a"), answer(2, 1951, good), call(3, 2100, "b"),
				answer(3, 2101, good)}), ""},
		"the body that was replaced": {slices.Concat(died,
			[]event{replace(acknowledged), call(2, 2000, "a"), answer(2, 2001, good)}), "BODY"},
		"a replacement that was refused": {slices.Concat(delivered, []event{replace(refused)}), ""},
		"dead though deleted":            {[]event{push(acknowledged), remove(acknowledged), dead}, "DELETED AND DEAD"},
		"pushed again after its deletion": {[]event{push(acknowledged), remove(acknowledged), replace(acknowledged),
			call(1, 1800, "b"), answer(1, 1801, bad), dead}, ""},
		"re-driven and delivered": {slices.Concat(died,
			[]event{redrive, call(2, 1800, "a"), answer(2, 1801, good)}), ""},
		"re-driven and dead again": {slices.Concat(died,
			[]event{redrive, call(2, 1800, "a"), answer(2, 1801, bad), dead}), ""},
		"taken, left and taken again": {worked(take(1, 1600, 2600, bad), take(2, 2600, 2700, good)), ""},
		"taken while its lease holds": {worked(take(1, 1600, 2600, bad), take(2, 2500, 2700, good)), "HELD"},
		"the lease was forgotten": {worked(take(1, 1600, 2600, bad), take(2, 2500, 2700, good),
			[]event{{Kind: evFault, Fault: "redis flushed", At: 1700, Calm: 1900}}), ""},
		"a process was killed": {worked(take(1, 1600, 2600, bad), take(2, 2500, 2700, good), []event{fault}),
			"HELD"},
		"replaced while it was held": {worked(take(1, 1600, 2600, bad), take(2, 2500, 2700, good),
			[]event{{Kind: evPush, Topic: "t", ID: "1", At: 1700, End: 1710, Result: acknowledged, Body: "a"}}), ""},
		"acked twice at a fault": {worked(take(1, 1600, 1700, good), take(2, 2500, 2700, good), []event{fault}),
			"TWICE"},
		"acked before the answer to its push was lost": {slices.Concat(
			[]event{{Kind: evPush, Topic: "t", ID: "1", At: 1000, End: 1650, Result: acknowledged, Body: "a"}},
			take(1, 1600, 1610, good), take(2, 1640, 1700, good),
			[]event{{Kind: evFault, Fault: "some fault", At: 1500, Calm: 1900}}), ""},
		"acked, spooled at a fault and acked": {slices.Concat(
			[]event{{Kind: evPush, Topic: "t", ID: "1", At: 1000, End: 1650, Result: acknowledged, Status: 202,
				Body: "a"}},
			take(1, 1700, 1710, good), take(2, 2500, 2700, good),
			[]event{{Kind: evFault, Fault: "some fault", At: 1500, Calm: 1680}}), ""},
		"acked, forgotten and acked": {worked(take(1, 1600, 1700, good), take(2, 2500, 2700, good),
			[]event{{Kind: evFault, Fault: "redis flushed", At: 1700, Calm: 1900}}), ""},
		"taken by nobody who acked it": {worked(take(1, 1600, 2600, bad)), "LOST"},
		"dead, and no call could arrive": {slices.Concat(died,
			[]event{redrive, {Kind: evDead, Topic: "t", ID: "1", Error: "attempts"}}), ""},
		"re-driven and not called": {slices.Concat(died, []event{redrive, dead}), "WRONGLY DEAD"},
		"replaced, and dead by an old death": {slices.Concat(died, []event{replace(acknowledged), dead}),
			"WRONGLY DEAD"},
		"spooled, deleted, and called": {[]event{{Kind: evPush, Topic: "t", ID: "1", At: 1000, End: 1010,
			Result: acknowledged, Status: 202, Body: "a"},
			remove(acknowledged), call(1, 1600, "a"), answer(1, 1601, good)}, ""},
		"dead by its leases": {slices.Concat(
			died, []event{redrive, {Kind: evDead, Topic: "t", ID: "1", Error: "lease"}}),
			""},
		"dead with attempts left": {[]event{{Kind: evPush, Topic: "steady", ID: "1", Result: unknown},
			{Kind: evDead, Topic: "steady", ID: "1", Error: "lease"}}, "WRONGLY DEAD"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(judge(c.events).Wrong, "; ")
			if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
				t.Errorf("the verdict is %q, want %q", got, c.want)
			}
		})
	}
}
