package ledger

import (
	"slices"
	"strings"
	"testing"
)

// request returns the events of a request at a time, which was answered 10 ms later.
func request(kind string, at float64, result string) []Event {
	return []Event{{Kind: kind, Topic: "t", ID: "1", At: at, End: at + 10, Result: result}}
}

// setting returns a request that sets a job's due time and body.
func setting(kind string, at float64, result string, delay float64, body string) []Event {
	events := request(kind, at, result)
	events[0].SetsDue, events[0].DelayMS, events[0].Body = true, delay, body
	return events
}

func push(result string) []Event    { return setting(Push, 1000, result, 500, "a") }
func replace(result string) []Event { return setting(Push, 1700, result, 0, "b") }
func remove(result string) []Event  { return request(Delete, 1200, result) }

// call returns a call and its answer.
func call(n int, at float64, body, result string) []Event {
	return []Event{
		{Kind: Call, Topic: "t", ID: "1", At: at, Call: n, Body: body},
		{Kind: Answer, Topic: "t", ID: "1", At: at + 1, Call: n, Result: result},
	}
}

// lease returns a call of a worker that held the job until a time.
func lease(n int, at, held float64, result string) []Event {
	events := call(n, at, "a", result)
	events[0].Shard, events[1].Held = "redis-1", held
	return events
}

func fault(name string, at, calm float64) []Event {
	return []Event{{Kind: Fault, Fault: name, At: at, Calm: calm}}
}

func dead(status int, reason string) []Event {
	return []Event{{Kind: Dead, Topic: "t", ID: "1", Status: status, Error: reason}}
}

// TestTheVerdictFindsFaults: a verdict that can never be negative is worthless.
func TestTheVerdictFindsFaults(t *testing.T) {
	events := slices.Concat[[]Event]
	pushed, failed, done := push(Acknowledged), call(1, 1600, "a", Bad), call(1, 1600, "a", Good)
	again, someFault := call(2, 1800, "a", Good), fault("some fault", 1700, 1900)
	redriven := setting(Redrive, 1700, Acknowledged, 0, "")
	expired, taken := lease(1, 1600, 2600, Bad), lease(2, 2500, 2700, Good)
	spooled := request(Push, 1000, Acknowledged)
	spooled[0].Status, spooled[0].Body = 202, "a"
	abandoned := request(Push, 1000, Unknown)
	abandoned[0].Error, abandoned[0].Body = "context deadline exceeded", "a"
	slow := request(Push, 1000, Acknowledged)
	slow[0].End, slow[0].Body = 1650, "a"
	early := call(1, 1600, "a", Good)
	early[0].DueAt = 1601
	immortal := dead(0, "lease")
	immortal[0].Immortal = true
	for name, c := range map[string]struct {
		events []Event
		want   string
	}{
		"delivered":                        {events(pushed, done), ""},
		"unknown and never called":         {push(Unknown), ""},
		"unknown and called":               {events(push(Unknown), done), ""},
		"dead":                             {events(pushed, failed, dead(0, "")), ""},
		"deleted":                          {events(pushed, remove(Acknowledged)), ""},
		"perhaps deleted":                  {events(pushed, remove(Unknown)), ""},
		"never called":                     {pushed, "LOST"},
		"called without success":           {events(pushed, failed), "LOST"},
		"a refused delete deletes nothing": {events(pushed, remove(Refused)), "LOST"},

		"called though refused":             {events(push(Refused), done), "INVENTED"},
		"called and never pushed":           {done, "INVENTED"},
		"early":                             {events(pushed, call(1, 1499, "a", Good)), "EARLY"},
		"before the due time of its header": {events(pushed, early), "EARLY"},
		"before its changed due time": {
			events(pushed, setting(Change, 1100, Acknowledged, 5000, "b"), call(1, 1600, "b", Good)), "EARLY"},
		"a change that may not have been": {events(pushed, setting(Change, 1100, Unknown, 5000, "b"), done), ""},
		"with its old body":               {events(pushed, setting(Change, 1100, Acknowledged, 0, "b"), done), "BODY"},
		"after its delete":                {events(pushed, remove(Acknowledged), done), "AFTER DELETE"},

		"twice":                 {events(pushed, done, again), "TWICE"},
		"twice at a fault":      {events(pushed, done, someFault, again), ""},
		"again after a failure": {events(pushed, failed, again), ""},

		"delivered, and its replacement too": {
			events(pushed, done, replace(Acknowledged), call(2, 1800, "b", Good)), ""},
		"only what was replaced is delivered": {events(pushed, done, replace(Acknowledged)), "LOST"},
		"reserved just before it was replaced": {events(pushed, failed, replace(Acknowledged),
			call(2, 1950, "a", Good), call(3, 2100, "b", Good)), ""},
		"the body that was replaced": {
			events(pushed, failed, replace(Acknowledged), call(2, 6000, "a", Good)), "BODY"},
		"a replacement that was refused": {events(pushed, done, replace(Refused)), ""},

		"dead though deleted": {events(pushed, remove(Acknowledged), dead(422, "")), "DELETED AND DEAD"},
		"pushed again after its deletion": {events(pushed, remove(Acknowledged), replace(Acknowledged),
			call(1, 1800, "b", Bad), dead(422, "")), ""},
		"re-driven and delivered":  {events(pushed, failed, redriven, again), ""},
		"re-driven and dead again": {events(pushed, failed, redriven, call(2, 1800, "a", Bad), dead(422, "")), ""},
		"re-driven and not called": {events(pushed, failed, redriven, dead(422, "")), "WRONGLY DEAD"},
		"replaced, and dead by an old death": {
			events(pushed, failed, replace(Acknowledged), dead(422, "")), "WRONGLY DEAD"},
		"dead, and no call could arrive": {events(pushed, failed, redriven, dead(0, "attempts")), ""},
		"dead by its leases":             {events(pushed, failed, redriven, dead(0, "lease")), ""},
		"dead with attempts left":        {events(push(Unknown), immortal), "WRONGLY DEAD"},

		"taken, left and taken again":  {events(pushed, expired, lease(2, 2600, 2700, Good)), ""},
		"taken while its lease holds":  {events(pushed, expired, taken), "HELD"},
		"the lease was forgotten":      {events(pushed, expired, taken, fault("redis flushed", 1700, 1900)), ""},
		"a process was killed":         {events(pushed, expired, taken, someFault), "HELD"},
		"replaced while it was held":   {events(pushed, expired, taken, setting(Push, 1700, Acknowledged, 0, "a")), ""},
		"taken by nobody who acked it": {events(pushed, expired), "LOST"},

		"acked twice at a fault": {events(pushed, lease(1, 1600, 1700, Good), taken, someFault), "TWICE"},
		"acked before the answer to its push was lost": {events(slow, lease(1, 1600, 1610, Good),
			lease(2, 1640, 1700, Good), fault("some fault", 1500, 1900)), ""},
		"acked, forgotten and acked": {
			events(pushed, lease(1, 1600, 1700, Good), taken, fault("redis flushed", 1700, 1900)), ""},
		"acked, spooled at a fault and acked": {
			events(spooled, lease(1, 1700, 1710, Good), taken, fault("some fault", 900, 1680)), ""},
		"acked, spooled after its client had gone, and acked": {
			events(abandoned, lease(1, 1700, 1710, Good), taken, fault("some fault", 900, 1680)), ""},
		"spooled, deleted, and called": {events(spooled, remove(Acknowledged), done), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(Judge(c.events).Wrong, "; ")
			if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
				t.Errorf("the verdict is %q, want %q", got, c.want)
			}
		})
	}
}
