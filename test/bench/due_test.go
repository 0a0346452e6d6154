package bench

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// lateRate is the load of a nearly idle installation, in jobs per second.
const lateRate = 200

// trickle pushes lateRate jobs a second, each due at the time in its id.
func (in *installation) trickle(delay func() time.Duration) *harness.Load {
	return harness.StartClients(in.b, 4, lateRate, in.b.sending(in.addr(), func(int) func([]byte) []byte {
		return func([]byte) []byte {
			n, d := int(in.jobs.Add(1)), delay()
			job := fmt.Sprintf(`{"id":%q,"delay":%q,"body":%s}`, dueID(n, d), d, body(n))
			return harness.Request(http.MethodPost, "/v1/topics/"+topic+"/jobs", in.Token, job)
		}
	}))
}

func lateness(b *bench) {
	in := b.start(nil)
	in.put(topic, latePath, "active")
	began := time.Now()
	load := in.trickle(within(time.Second, b.lateMax))
	time.Sleep(b.late)
	pushed, ended := b.ok(load.Stop()).Requests, time.Now()
	in.endpoint.await(pushed, b.lateMax+time.Minute)
	// Before that time, the delays have not yet built up the load; after it, the load decreases.
	s := in.endpoint.seen(began.Add(b.lateMax), ended.Add(time.Second))
	b.figure("lateness at 200 jobs/s, p50", "ms", "≤ 1.5 ms", s.P50)
	b.figure("lateness at 200 jobs/s, p99", "ms", "≤ 5 ms", s.P99)
	b.figure("lateness at 200 jobs/s, maximum", "ms", "≤ 50 ms", s.Max)
	b.figure("called early at 200 jobs/s", "jobs", "0", float64(s.Early))
}

// pushRate is how many pushes a second are assumed while jobs with one due time are pushed.
const pushRate = 30_000

// mass pushes jobs that are all due at one moment, and a trickle of others to another topic until they are called.
func mass(b *bench) {
	in := b.start(nil)
	const massTopic = topic + ".mass"
	in.put(massTopic, countPath, "active")
	in.put(topic, latePath, "active")
	due := time.Now().Add(5*time.Second + time.Duration(b.due)*time.Second/pushRate)
	in.fill(jobs{
		topic: func(int) string { return massTopic }, delay: func() time.Duration { return time.Until(due) },
	}, b.due)
	if time.Until(due) < time.Second {
		b.Fatalf("%d jobs were not pushed in time", b.due)
	}
	in.watchLatency()
	load := in.trickle(within(time.Second, 2*time.Second))
	time.Sleep(time.Until(due))
	memory := 0.0
	harness.Eventually(b, 5*time.Minute, "the callbacks", func() error {
		memory = max(memory, in.largest())
		if got := in.endpoint.count(); got < b.due {
			return fmt.Errorf("%d came", got)
		}
		return nil
	})
	pushed, ended := b.ok(load.Stop()).Requests, time.Now()
	in.endpoint.await(b.due+pushed, 5*time.Minute)
	s := in.endpoint.seen(due, ended)
	what := fmt.Sprintf("%s jobs due in the same second", amount(float64(b.due)))
	b.figure(what+": called a second", "/s", "", s.Steady)
	b.figure(what+": longest command of Redis", "ms", "≤ 10 ms", in.longestCommand())
	b.figure(what+": memory of the largest process", "MiB", "≤ 256 MiB", memory)
	b.figure(what+": lateness of another topic meanwhile, p99", "ms", "≤ 100 ms", s.P99)
}

// watchLatency lets Redis record its longest commands.
func (in *installation) watchLatency() {
	in.b.Helper()
	for _, command := range [][]any{{"CONFIG", "SET", "latency-monitor-threshold", "1"}, {"LATENCY", "RESET"}} {
		if err := in.redis.Do(in.b.Context(), command...).Err(); err != nil {
			in.b.Fatal(err)
		}
	}
}

// longestCommand returns how long the longest command took since watchLatency, in ms; 0 if none took a millisecond.
func (in *installation) longestCommand() (longest float64) {
	in.b.Helper()
	events, err := in.redis.Do(in.b.Context(), "LATENCY", "LATEST").Slice()
	if err != nil {
		in.b.Fatal(err)
	}
	for _, e := range events { // name, time of the latest, latest, longest
		fields, ok := e.([]any)
		if ok && len(fields) >= 4 && (fields[0] == "command" || fields[0] == "fast-command") {
			took, _ := fields[3].(int64)
			longest = max(longest, float64(took))
		}
	}
	return longest
}

// minute pushes jobs to all topics in turn, each due at a random time of the same minute (with -quick: of so many
// seconds that the rate is the same).
func minute(b *bench) {
	const perSecond, pushed = 1_000_000 / 60, 4000 // pushes a second that are assumed over many topics
	in := b.start(nil)
	in.applyTopics()
	lasts := time.Duration(b.due) * time.Second / perSecond
	due := time.Now().Add(5*time.Second + time.Duration(b.due)*time.Second/pushed)
	spread := within(0, lasts)
	in.fill(jobs{
		topic: in.manyTopic, id: dueID, delay: func() time.Duration { return time.Until(due) + spread() },
	}, b.due)
	if time.Until(due) < 0 {
		b.Fatalf("%d jobs were not pushed in time", b.due)
	}
	time.Sleep(time.Until(due))
	before, rolesBefore, connections := in.cpu(), in.cpuOfRoles(), in.endpoint.ask("/seen").Connections
	in.endpoint.await(b.due, lasts+10*time.Minute)
	used, roles, s := in.cpu()-before, in.cpuOfRoles(), in.endpoint.seen(due, due.Add(2*lasts))
	what := fmt.Sprintf("%s jobs due at a million a minute over %s topics", amount(float64(b.due)),
		amount(float64(b.topics)))
	b.figure(what+": lateness, p50", "ms", "", s.P50)
	b.figure(what+": lateness, p99", "ms", "≤ 1,000 ms", s.P99)
	b.figure(what+": called early", "jobs", "0", float64(s.Early))
	b.figure(what+": processor time of all processes, from due to settled", "µs a job", "", perJob(used, b.due))
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		b.figure(what+": of which "+role, "µs a job", "", perJob(roles[role]-rolesBefore[role], b.due))
	}
	b.figure(what+": connections that the endpoint accepted", "a job", "",
		float64(s.Connections-connections)/float64(b.due))
}
