package bulk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

const (
	listPage  = 500              // jobs in one call to the queue
	listLimit = 2_000_000        // jobs in one task; listing takes 8 bytes of memory for each
	sweeps    = 5                // sweeps over the jobs
	clockSkew = 10 * time.Second // between Redis and this host
)

// target is a job that matched at the start. Its creation time distinguishes it from later jobs with the same id.
type target struct {
	Topic   string `json:"t,omitempty"` // empty: the filter's
	Shard   string `json:"s"`
	ID      string `json:"i"`
	Created int64  `json:"c"` // Unix ms
	At      int64  `json:"a"` // planned time of its call, or time of its death, Unix ms
	Calls   int    `json:"n"` // attempts so far
}

// list writes the matching jobs to the task's file. Since jobs move between the queue's lists meanwhile, it sweeps over
// the lists until it finds no new jobs.
func (w *work) list(ctx context.Context) error {
	if err := os.MkdirAll(w.runner.Dir, 0o700); err != nil {
		return fmt.Errorf("create the directory for job lists: %w", err)
	}
	f, err := os.OpenFile(w.runner.listFile(w.task.ID), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the job list: %w", err)
	}
	buffered := bufio.NewWriter(f)
	l := &jobList{out: json.NewEncoder(buffered), seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
	for sweep := 0; err == nil && sweep < sweeps && !w.params.Full; sweep++ {
		before := len(l.known)
		if err = w.sweep(ctx, l); len(l.known) == before {
			break
		}
	}
	if err = errors.Join(err, buffered.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	w.task.Total, w.params.Listed = int64(len(l.known)), true
	w.store(ctx)
	return ctx.Err()
}

func (w *work) sweep(ctx context.Context, l *jobList) error {
	for _, topic := range w.params.Filter.Topics(w.runner.Registry.Snapshot()) {
		if err := w.sweepTopic(ctx, l, topic); err != nil {
			return fmt.Errorf("list jobs of %s: %w", topic, err)
		}
		if w.params.Full {
			return nil
		}
	}
	return nil
}

func (w *work) sweepTopic(ctx context.Context, l *jobList, topic string) error {
	for cursor := ""; ; {
		var jobs []store.Job
		var next string
		err := w.patiently(ctx, func() (err error) {
			jobs, next, err = w.params.Filter.List(ctx, w.queue, w.runner.Registry.Snapshot(), topic, cursor, listPage)
			return err
		})
		if err != nil {
			return err
		}
		for i := range jobs {
			if !w.includes(&jobs[i]) {
				continue
			}
			if err := l.add(w.params.Filter.Topic, &jobs[i]); err != nil {
				return err
			}
		}
		w.task.Total = int64(len(l.known))
		if err := w.checkIn(ctx); err != nil {
			return err
		}
		cursor, w.params.Full = next, next != "" && len(l.known) >= listLimit
		if cursor == "" || w.params.Full {
			return nil
		}
	}
}

// includes reports whether a matching job already existed, or was already dead, when the task was started.
func (w *work) includes(j *store.Job) bool {
	until := w.task.CreatedAt.Add(clockSkew)
	return !j.CreatedAt.After(until) && !j.DeadAt.After(until)
}

// jobList is the list being written.
type jobList struct {
	out   *json.Encoder
	seed  maphash.Seed
	known map[uint64]struct{}
}

func (l *jobList) add(topic string, j *store.Job) error {
	created := j.CreatedAt.UnixMilli()
	key := maphash.String(l.seed, fmt.Sprint(created, "/", j.Topic, "/", j.ID))
	if _, ok := l.known[key]; ok {
		return nil
	}
	l.known[key] = struct{}{}
	t := target{Shard: j.Shard, ID: j.ID, Created: created, At: timeOf(j).UnixMilli(), Calls: j.Attempts}
	if j.Topic != topic {
		t.Topic = j.Topic
	}
	return l.out.Encode(t)
}

// readTargets reads up to most jobs of a list, and returns them with their length in bytes.
func (w *work) readTargets(lines *bufio.Reader, most int64) (targets []target, size int64, err error) {
	for int64(len(targets)) < most {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return targets, size, nil
		}
		t := target{Topic: w.params.Filter.Topic}
		if err == nil {
			err = json.Unmarshal(line, &t)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read the job list: %w", err)
		}
		size += int64(len(line))
		targets = append(targets, t)
	}
	return targets, size, nil
}
