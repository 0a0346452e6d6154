package test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// told is what the API tells about a schedule.
type told struct {
	Shard   string
	Next    []time.Time
	LeftOut map[string]int `json:"left_out"`
	Last    []struct {
		ID           string
		ScheduledFor time.Time `json:"scheduled_for"`
		State        string
	}
}

// schedule registers a schedule whose occurrences are all pushed, however late, unless fields say otherwise.
func (i *installation) schedule(t *testing.T, name, topic, every string, fields M) {
	t.Helper()
	def := M{"topic": topic, "every": every, "body": name, "missed": "all", "overlap": "allow"}
	maps.Copy(def, fields)
	i.MustDo(t, http.StatusCreated, http.MethodPut, "/v1/schedules/"+name, def)
}

func (i *installation) told(name string) (s told, err error) {
	return s, i.Do(ctx, http.MethodGet, "/v1/schedules/"+name, nil).JSON(&s)
}

// occurrence returns the id of an occurrence.
func occurrence(schedule string, at time.Time) string {
	return schedule + "@" + at.UTC().Format(time.RFC3339)
}

// waitFired waits until occurrences up to an instant were decided.
func (i *installation) waitFired(t *testing.T, name string, to time.Time) (s told) {
	t.Helper()
	harness.Eventually(t, soon, fmt.Sprintf("%s to come to %s", name, to.UTC().Format(time.TimeOnly)), func() (err error) {
		if s, err = i.told(name); err != nil {
			return err
		}
		if len(s.Last) == 0 || s.Last[0].ScheduledFor.Before(to) {
			return fmt.Errorf("the last ones are %v", s.Last)
		}
		return nil
	})
	return s
}

// eachOnce checks that each occurrence from one instant to another was pushed once: it was called, and no attempt at it
// was made twice. again is how many calls a fault may have repeated.
func (i *installation) eachOnce(t *testing.T, name, topic string, from, to time.Time, every time.Duration, again int) {
	t.Helper()
	s := i.waitFired(t, name, to)
	attempts := func() (calls map[string]map[int]int) {
		calls = map[string]map[int]int{}
		for _, c := range i.endpoint.Calls(topic) {
			if !strings.HasPrefix(c.ID, name+"@") {
				continue
			}
			if calls[c.ID] == nil {
				calls[c.ID] = map[int]int{}
			}
			calls[c.ID][c.Attempt]++
			at, err := time.Parse(time.RFC3339, c.Header.Get("Wakecall-Scheduled-For"))
			if err != nil || occurrence(c.Header.Get("Wakecall-Schedule"), at) != c.ID || !at.Equal(c.DueAt) {
				t.Errorf("%s is due at %s, with headers %v", c.ID, c.DueAt, c.Header)
			}
		}
		return calls
	}
	harness.Eventually(t, soon, "each occurrence of "+name+" to be called", func() (err error) {
		calls := attempts()
		for at := from; !at.After(to); at = at.Add(every) {
			if calls[occurrence(name, at)] == nil {
				err = errors.Join(err, fmt.Errorf("%s was not called", occurrence(name, at)))
			}
		}
		return err
	})
	for id, made := range attempts() {
		for attempt, n := range made {
			if again -= n - 1; again < 0 {
				t.Errorf("attempt %d at %s was made %d times", attempt, id, n)
			}
		}
	}
	for reason, n := range s.LeftOut {
		if n > 0 {
			t.Errorf("%s left out %d: %s", name, n, reason)
		}
	}
}

// after returns the first instant after another with a distance from the hour.
func after(at time.Time, every time.Duration) time.Time { return at.Truncate(every).Add(every) }

// sleepTo sleeps to a moment before or after the next full second but one, when occurrences are pushed.
func sleepTo(offset time.Duration) {
	time.Sleep(time.Until(after(time.Now(), time.Second).Add(time.Second + offset)))
}

// TestSchedulesThroughKills: three hosts on two shards, of which a process is killed at each full second. The registry
// is away meanwhile, and one host starts without it.
func TestSchedulesThroughKills(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	onServerOfTheDay(t, schedulesThroughKills)
}

func schedulesThroughKills(t *testing.T, db dbtest.Stoppable) {
	shards := []*harness.Redis{
		harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{}),
	}
	opts := onRedis(shards...)
	opts.Env["WAKECALL_REGISTRY_DSN"] = db.DSN("wakecall")
	var hosts []*harness.Wakecall
	for range 3 {
		hosts = append(hosts, harness.New(t, opts))
		hosts[len(hosts)-1].Up()
	}
	for _, h := range hosts {
		harness.Eventually(t, soon, "the host to be ready", h.Readyz)
	}
	harness.ShareToken(t, hosts...)
	i := &installation{hosts[0], harness.StartEndpoint(t)}
	topic := i.topic(t, nil, M{"ttr": "2s", "retry": []string{"100ms"}})
	began := time.Now()
	on := map[string]int{}
	seconds := 0
	for ; seconds < 4 || len(on) < 2 && seconds < 40; seconds++ { // one of 2^39 runs has all of them on one shard
		name := fmt.Sprint("second-", seconds)
		i.schedule(t, name, topic, "1s", nil)
		s, err := i.told(name)
		must(t, err)
		on[s.Shard]++
	}
	i.schedule(t, "five", topic, "5s", M{"start_at": began.Truncate(5 * time.Second)})
	stored := time.Now()
	if len(on) != 2 {
		t.Fatalf("the schedules are on %v", on)
	}
	i.waitFired(t, "second-0", after(stored, time.Second))

	kill := func(host int, role string) func() { return func() { hosts[host].KillRole(role) } }
	crash := func(host int) func() {
		return func() {
			h := hosts[host]
			children := h.Children()
			h.Kill9()
			for _, pid := range children {
				process.Kill9(t, pid)
			}
			h.Up()
		}
	}
	faults := []func(){
		kill(0, "timer"), kill(1, "dispatcher"), kill(2, "timer"), func() { hosts[1].Kill9(); hosts[1].Up() },
		func() { shards[0].Kill9(); shards[0].Restart() },
		db.Kill9, kill(1, "timer"), crash(2), kill(0, "dispatcher"),
		func() { shards[1].Kill9(); shards[1].Restart() },
		db.Start,
	}
	for n, fault := range faults {
		sleepTo(time.Duration(n%3-1) * 10 * time.Millisecond)
		fault()
	}
	for n := range seconds {
		i.eachOnce(t, fmt.Sprint("second-", n), topic, after(stored, time.Second), after(time.Now(), time.Second),
			time.Second, 0)
	}
	i.eachOnce(t, "five", topic, after(stored, 5*time.Second), time.Now().Truncate(5*time.Second), 5*time.Second, 0)
}

// TestSchedulesDuringADrain: they move to the other shard with their cursors.
func TestSchedulesDuringADrain(t *testing.T) {
	t.Parallel()
	i := start(t, onRedis(
		harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})))
	topic := i.topic(t, nil, nil)
	names := []string{"tick-0", "tick-1", "tick-2", "tick-3"}
	for _, name := range names {
		i.schedule(t, name, topic, "1s", nil)
	}
	stored := time.Now()
	i.waitFired(t, names[0], after(stored, time.Second))
	sleepTo(-5 * time.Millisecond)
	i.succeeds(t, "shard", "drain", "redis-2")
	harness.Eventually(t, soon, "all schedules to be on the other shard", func() (err error) {
		for _, name := range names {
			s, errTold := i.told(name)
			err = errors.Join(err, errTold, harness.Equal(name+" is on", s.Shard, "redis-1"))
		}
		return err
	})
	for _, name := range names {
		i.eachOnce(t, name, topic, after(stored, time.Second), after(time.Now(), 2*time.Second), time.Second, 0)
	}
}

// TestSchedulesOfAShardThatIsRenamedAndRemoved: they go on through a rename, and in another shard when theirs is gone.
func TestSchedulesOfAShardThatIsRenamedAndRemoved(t *testing.T) {
	t.Parallel()
	lost := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(harness.StartRedis(t, harness.RedisOptions{}), lost))
	topic := i.topic(t, nil, nil)
	names := []string{"tick-0", "tick-1", "tick-2", "tick-3"}
	for _, name := range names {
		i.schedule(t, name, topic, "1s", nil)
	}
	stored := time.Now()
	i.waitFired(t, names[0], after(stored, time.Second))
	i.succeeds(t, "shard", "rename", "redis-2", "second")
	for _, name := range names {
		i.eachOnce(t, name, topic, after(stored, time.Second), after(time.Now(), 2*time.Second), time.Second, 0)
	}
	lost.Kill9()
	i.succeeds(t, "shard", "delete", "second", "--force")
	for _, name := range names {
		i.waitFired(t, name, time.Now())
		s, err := i.told(name)
		if err != nil || s.Shard != "redis-1" {
			t.Errorf("%s is on %s, %v", name, s.Shard, err)
		}
		i.eachOnce(t, name, topic, after(time.Now(), time.Second), after(time.Now(), 2*time.Second), time.Second, 0)
	}
}

// TestSchedulesAfterALoss: Redis loses everything, or all writes since a backup. What the journal knows to have been
// pushed is not pushed again, and nothing is left out.
func TestSchedulesAfterALoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *harness.Redis) func(){
		"everything":    func(_ *testing.T, r *harness.Redis) func() { return func() { r.Lose(); r.Restart() } },
		"while it runs": func(_ *testing.T, r *harness.Redis) func() { return func() { r.Do("FLUSHALL") } },
		"a backup is restored": func(t *testing.T, r *harness.Redis) func() {
			waitKept(t, r)
			forget := r.Remember()
			return func() { forget(); r.Restart() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := harness.StartRedis(t, harness.RedisOptions{})
			i := start(t, onRedis(r))
			topic := i.topic(t, nil, nil)
			i.schedule(t, "tick", topic, "1s", nil)
			stored := time.Now()
			i.waitFired(t, "tick", stored.Add(2*time.Second))
			loss := lose(t, r)
			i.waitFired(t, "tick", time.Now().Add(2*time.Second))
			for range 2 {
				sleepTo(2 * time.Millisecond)
				loss()
				i.waitFired(t, "tick", time.Now().Add(2*time.Second))
			}
			i.eachOnce(t, "tick", topic, after(stored, time.Second), after(time.Now(), time.Second), time.Second, 2)
		})
	}
}

// TestSchedulesGoByTheClockOfRedis: the host is five minutes late.
func TestSchedulesGoByTheClockOfRedis(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	clock := newClock(t)
	clock.Set(5 * time.Minute)
	i := start(t, onRedis(harness.StartRedis(t, harness.RedisOptions{Env: clock.env()})))
	topic := i.topic(t, nil, nil)
	now := func() time.Time { return time.Now().Add(5 * time.Minute) }
	i.schedule(t, "tick", topic, "1s", nil)
	stored := now()
	i.waitFired(t, "tick", stored.Add(2*time.Second))
	clock.Set(5*time.Minute - 10*time.Second) // what was pushed is not pushed again
	time.Sleep(2 * time.Second)
	clock.Set(5 * time.Minute)
	i.eachOnce(t, "tick", topic, after(stored, time.Second), after(now(), time.Second), time.Second, 0)
	for _, c := range i.endpoint.Calls(topic) {
		if c.At.Add(5 * time.Minute).Before(c.DueAt) {
			t.Errorf("%s was called at %s", c.ID, c.At)
		}
	}
}

// TestAManualRunLeavesTheNextOccurrence: it is one second before it.
func TestAManualRunLeavesTheNextOccurrence(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	topic := i.topic(t, nil, nil)
	next := after(time.Now().Add(time.Second), 4*time.Second)
	i.schedule(t, "four", topic, "4s", M{"start_at": next, "overlap": "skip"})
	time.Sleep(time.Until(next.Add(-time.Second)))
	var run struct{ ID string }
	must(t, i.MustDo(t, http.StatusCreated, http.MethodPost, "/v1/schedules/four/run", nil).JSON(&run))
	i.eachOnce(t, "four", topic, next, next, 4*time.Second, 0)
	if calls := i.endpoint.CallsOf(topic, run.ID); len(calls) != 1 || !strings.HasPrefix(run.ID, "four!") {
		t.Errorf("%s was called %d times", run.ID, len(calls))
	}
	answer := i.Do(ctx, http.MethodDelete, "/v1/topics/"+topic, nil)
	if answer.Status != http.StatusConflict || answer.Code() != "topic_in_use" || !strings.Contains(answer.String(), "four") {
		t.Errorf("the deletion of the topic is answered %s", answer)
	}
}
