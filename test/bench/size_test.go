package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/wait"
)

// idle measures an installation with 1,000 topics that has settled: within ten seconds of its start and the last
// change, processes compare journals and read all topics once.
func idle(b *bench) {
	in := b.start(nil)
	for n := range 1000 {
		in.put(fmt.Sprintf("bench.idle.%04d", n), countPath, "active")
	}
	in.watchIdle("idle, 1,000 topics", "≤ 10 /s", "≤ 1 %", "≤ 60 MiB")
}

func (in *installation) watchIdle(what, commands, cpu, memory string) {
	in.b.Helper()
	time.Sleep(in.b.settle)
	const processed = "total_commands_processed"
	before, used, began := in.info("Stats", processed), in.cpu(), time.Now()
	time.Sleep(in.b.idle)
	seconds := time.Since(began).Seconds()
	made := in.info("Stats", processed) - before - 1 // without the INFO
	in.b.figure(what+": Redis commands, those in scripts included", "/s", commands, made/seconds)
	in.b.figure(what+": processor time of all processes", "% of a core", cpu, 100*(in.cpu()-used).Seconds()/seconds)
	in.b.figure(what+": memory of the largest process", "MiB", memory, in.largest())
}

func memory(b *bench) {
	for _, c := range []struct {
		what, target string
		id           func(int, time.Duration) string
	}{
		{"Redis memory per delayed job, 64-byte body, id of 24 bytes", "≤ 247 bytes", nil},
		{"the same, ids made by the server", "≤ 247 bytes", func(int, time.Duration) string { return "" }},
	} {
		in := b.start(nil)
		in.put(topic, countPath, "active")
		in.rest()
		far := jobs{delay: within(time.Hour, 2*time.Hour), id: c.id}
		b.figure(c.what, "bytes", c.target, in.bytesPerJob(far, b.memory))
	}
}

// bytesPerJob pushes n jobs and returns by how much each lets Redis's memory grow.
func (in *installation) bytesPerJob(j jobs, n int) float64 {
	in.b.Helper()
	before := in.memory()
	in.fill(j, n)
	in.rest() // what waits for the append-only file is not the jobs'
	return (in.memory() - before) / float64(n)
}

// growth measures an installation with few jobs and one with many in turn, so that a machine whose speed varies from
// minute to minute affects both equally.
func growth(b *bench) {
	rounds := 4.0
	if *quick {
		rounds = 1
	}
	few, many := b.start(nil), b.start(nil)
	far := jobs{delay: within(time.Hour, 24*time.Hour)}
	for _, in := range []*installation{few, many} {
		in.put(topic, countPath, "paused")
	}
	few.fill(far, 10_000)
	memory := many.bytesPerJob(far, b.growth)
	var push, move [2]float64
	for range int(rounds) {
		for i, in := range []*installation{few, many} {
			pushed, moved := in.costs()
			push[i], move[i] = push[i]+pushed/rounds, move[i]+moved/rounds
		}
	}
	with := fmt.Sprintf("with %s delayed jobs", amount(float64(b.growth)))
	b.beside("Redis's time for a push in a batch, "+with, "µs", "≤ 1.3 times", push[1], "with 10,000", push[0])
	b.beside("Redis's time from delayed to ready, "+with, "µs", "≤ 1.3 times", move[1], "with 10,000", move[0])
	b.figure("Redis memory per delayed job, "+with, "bytes", "≤ 247 bytes", memory)
}

// costs pushes jobs that are due soon, waits until they are ready, and drops them. It returns the microseconds of
// Redis's processor time for a push, and for the move from delayed to ready.
func (in *installation) costs() (push, move float64) {
	in.b.Helper()
	const near, n = topic + ".near", 100_000
	in.put(near, countPath, "paused")
	due := time.Now().Add(8 * time.Second)
	start := in.redisCPU()
	in.fill(jobs{
		topic: func(int) string { return near }, delay: func() time.Duration { return max(0, time.Until(due)) },
	}, n)
	pushed := in.redisCPU()
	if time.Until(due) <= 0 {
		in.b.Fatalf("%d jobs were not pushed in time", n)
	}
	harness.Eventually(in.b, 2*time.Minute, "the jobs to be ready", func() error {
		stats, err := in.api.Stats(in.b.Context(), near)
		if err == nil {
			err = harness.Equal("ready jobs", stats.Ready, n)
		}
		return err
	})
	moved := in.redisCPU()
	in.api.MustDo(in.b, http.StatusNoContent, http.MethodDelete, "/v1/topics/"+near+"?drop=true", nil)
	in.rest()
	return perJob(pushed-start, n), perJob(moved-pushed, n)
}

// applyTopics creates the topics of an installation with many as a user would, from a file.
func (in *installation) applyTopics() time.Duration {
	in.b.Helper()
	var list []M
	for n := range in.b.topics {
		list = append(list, M{"name": in.manyTopic(n), "callback_url": in.endpoint.url(latePath)})
	}
	text, err := json.Marshal(list)
	if err != nil {
		in.b.Fatal(err)
	}
	file := filepath.Join(in.Dir, "topics.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		in.b.Fatal(err)
	}
	began := time.Now()
	if code, out := in.Run("topic", "apply", "-f", file); code != 0 {
		in.b.Fatalf("topic apply exits %d: %.500s", code, out)
	}
	return time.Since(began)
}

func (in *installation) manyTopic(n int) string { return fmt.Sprintf("bench.many.%06d", n%in.b.topics) }

// topics measures an installation with many topics.
func topics(b *bench) {
	in := b.start(nil)
	many := amount(float64(b.topics)) + " topics"
	b.figure("`topic apply` of "+many, "s", "≤ 60 s", in.applyTopics().Seconds())
	in.Signal(syscall.SIGTERM)
	in.WaitExit()
	began := time.Now()
	in.Up()
	in.WaitReady()
	b.figure("start with "+many, "ms", "≤ 3,000 ms", ms(time.Since(began)))
	in.connect()
	b.figure("a paused topic of "+many+" becomes active: until its job is called, slowest of 20", "ms", "≤ 100 ms",
		ms(in.resume()))
	in.watchIdle("idle, "+many, "≤ 20 /s", "≤ 2 %", "≤ 250 MiB")

	far := jobs{topic: func(int) string { return in.manyTopic(0) }, delay: within(time.Hour, time.Hour+time.Minute)}
	one := b.rate(16, in.batches(far, 100, endless))
	far.topic = in.manyTopic
	inTurn := b.rate(16, in.batches(far, 100, endless))
	b.beside("batch pushes over "+many+" in turn", "jobs/s", "≥ 0.7 of it", 100*inTurn, "to one topic", 100*one)
	b.figure("Redis memory per delayed job over "+many, "bytes", "≤ 330 bytes", in.bytesPerJob(far, b.memory))
	metrics := in.Metrics().MustDo(b, http.StatusOK, http.MethodGet, "/metrics", nil)
	lines := bytes.Count(metrics.Body, []byte("\n"))
	b.figure("lines of /metrics with jobs in "+many, "lines", "≤ 20,000", float64(lines))
}

// resume makes a paused topic active, again and again, and returns the longest time until its job was called.
func (in *installation) resume() time.Duration {
	in.b.Helper()
	var took []time.Duration
	name := in.manyTopic(7)
	for len(took) < 20 {
		in.put(name, countPath, "paused")
		time.Sleep(300 * time.Millisecond) // the pause takes effect
		in.endpoint.reset()
		in.api.MustPush(in.b, name, M{"body": 1})
		began := time.Now()
		in.put(name, countPath, "active")
		wait.For(in.b, "the callback", func() bool { return in.endpoint.count() > 0 })
		took = append(took, time.Since(began))
	}
	return slices.Max(took)
}
