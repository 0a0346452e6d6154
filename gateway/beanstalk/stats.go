package beanstalk

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
)

// yaml builds the text of statistics.
type yaml struct{ strings.Builder }

func newYAML() *yaml {
	y := &yaml{}
	y.WriteString("---\n")
	return y
}

func (y *yaml) add(key string, value any) {
	if text, ok := value.(string); ok {
		value = `"` + text + `"`
	}
	fmt.Fprintf(y, "%s: %v\n", key, value)
}

// bare adds a word without quotes.
func (y *yaml) bare(key, value string) { fmt.Fprintf(y, "%s: %s\n", key, value) }

// jobCounts counts the jobs of some topics by state.
type jobCounts struct{ urgent, ready, reserved, delayed, buried int64 }

func (k *conn) count(topics []string) (c jobCounts, err error) {
	if len(topics) == 0 {
		return c, nil
	}
	stats, err := k.queue.Stats(k.ctx, topics)
	for _, s := range stats {
		c.urgent += s.High
		c.ready += s.Ready
		c.reserved += s.Running
		c.delayed += s.Delayed
		c.buried += s.Dead
	}
	return c, err
}

func (c *jobCounts) addTo(y *yaml) {
	y.add("current-jobs-urgent", c.urgent)
	y.add("current-jobs-ready", c.ready)
	y.add("current-jobs-reserved", c.reserved)
	y.add("current-jobs-delayed", c.delayed)
	y.add("current-jobs-buried", c.buried)
}

// alone runs a function that reads all tubes, for one connection at a time. Otherwise thousands of clients that request
// the statistics of thousands of tubes could exhaust memory and overload the shards.
func (k *conn) alone(read func() error) error {
	select {
	case k.reading <- struct{}{}:
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
	defer func() { <-k.reading }()
	return read()
}

func (k *conn) stats([]string, []byte) error {
	var jobs jobCounts
	var names []string
	err := k.alone(func() error {
		err := k.tubes.refresh(k.ctx, k.queue)
		if err != nil {
			return err
		}
		names = k.tubes.names()
		var topics []string
		for _, name := range names {
			topics = append(topics, topicOf(name))
		}
		jobs, err = k.count(topics)
		return err
	})
	if err != nil {
		return err
	}
	y := newYAML()
	jobs.addTo(y)
	for i, name := range commandNames[:counted] {
		y.add("cmd-"+name, k.counts.commands[i].Load())
	}
	y.add("job-timeouts", k.counts.timeouts.Load())
	y.add("total-jobs", k.counts.jobs.Load())
	y.add("max-job-size", k.maxBody)
	y.add("current-tubes", len(names))
	y.add("current-connections", k.counts.open.Load())
	y.add("current-producers", k.counts.producers.Load())
	y.add("current-workers", k.counts.workers.Load())
	y.add("current-waiting", k.counts.waiting.Load())
	y.add("total-connections", k.counts.connections.Load())
	k.process(y)
	return k.replyYAML(y.String())
}

// protocolVersion is the version of beanstalkd whose protocol is implemented. Clients read the number at the beginning.
const protocolVersion = "1.13"

// process adds the statistics of the process. There is no binlog.
func (k *conn) process(y *yaml) {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // zero on error
	y.add("pid", os.Getpid())
	y.add("version", protocolVersion+" wakecall "+k.version)
	y.bare("rusage-utime", seconds(used.Utime))
	y.bare("rusage-stime", seconds(used.Stime))
	y.add("uptime", int64(time.Since(k.started).Seconds()))
	for _, key := range []string{
		"binlog-oldest-index", "binlog-current-index", "binlog-records-migrated", "binlog-records-written",
		"binlog-max-size",
	} {
		y.add(key, 0)
	}
	y.bare("draining", "false")
	y.bare("id", fmt.Sprintf("%016x", uint64(k.started.UnixNano())))
	y.add("hostname", hostname())
	y.add("os", runtime.GOOS)
	y.add("platform", runtime.GOARCH)
}

func seconds(t syscall.Timeval) string { return fmt.Sprintf("%d.%06d", t.Sec, t.Usec) }

func (k *conn) statsTube(name string) error {
	if err := k.tubes.recent(k.ctx, k.queue); err != nil {
		return err
	}
	jobs, err := k.count([]string{topicOf(name)})
	if err != nil {
		return err
	}
	y := newYAML()
	there := k.tubes.look(name, func(t *tube) {
		y.add("name", name)
		jobs.addTo(y)
		y.add("total-jobs", t.totalJobs)
		y.add("current-using", t.using)
		y.add("current-watching", t.watching)
		y.add("current-waiting", t.waiting)
		y.add("cmd-delete", t.cmdDelete)
		y.add("cmd-pause-tube", t.cmdPause)
		left := max(0, time.Until(t.pausedUntil))
		pause := t.pause
		if left == 0 {
			pause = 0
		}
		y.add("pause", int64(pause.Seconds()))
		y.add("pause-time-left", int64(left.Seconds()))
	})
	if !there {
		return k.reply("NOT_FOUND")
	}
	return k.replyYAML(y.String())
}

var stateNames = map[store.State]string{
	store.Ready: "ready", store.Delayed: "delayed", store.Running: "reserved", store.Dead: "buried",
}

func (k *conn) statsJob(id uint64) error {
	job, err := k.find(id)
	if err != nil {
		return err
	}
	if job == nil {
		return k.reply("NOT_FOUND")
	}
	name, _ := tubeOf(job.Topic)
	now := time.Now()
	y := newYAML()
	y.add("id", id)
	y.add("tube", name)
	y.bare("state", stateNames[job.State])
	y.add("pri", priorityOf(job))
	y.add("age", int64(max(0, now.Sub(job.CreatedAt)).Seconds()))
	y.add("delay", int64(gateway.DelayOf(job).Seconds()))
	y.add("ttr", int64(gateway.TTROf(job, k.topics()).Seconds()))
	y.add("time-left", timeLeft(job, now))
	y.add("file", 0)
	c := tallyOf(job)
	y.add("reserves", c.reserves)
	y.add("timeouts", c.timeouts)
	y.add("releases", c.releases)
	y.add("buries", c.buries)
	y.add("kicks", 0)
	return k.replyYAML(y.String())
}

func timeLeft(job *store.Job, now time.Time) int64 {
	switch job.State {
	case store.Delayed:
		return int64(max(0, job.NextAt.Sub(now)).Seconds())
	case store.Running:
		return int64(max(0, job.LeaseUntil.Sub(now)).Seconds())
	}
	return 0
}

// tally counts what happened to a job.
type tally struct{ reserves, timeouts, releases, buries int }

// tallyOf counts what is in a job's history.
func tallyOf(job *store.Job) (c tally) {
	c.reserves = job.Attempts
	if job.State == store.Running {
		c.reserves++
	}
	for _, a := range job.History {
		switch {
		case strings.HasPrefix(a.Error, releasedError):
			c.releases++
		case a.Error == buriedError:
			c.buries++
		default:
			c.timeouts++
		}
	}
	return c
}
