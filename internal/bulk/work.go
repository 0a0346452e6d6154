package bulk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/queue"
)

const (
	chunkSize  = 200 // jobs; a chunk that a kill interrupts is repeated
	retryTimes = 30  // repetitions of a step that the queue refuses
	retryWait  = 2 * time.Second
)

// work carries out one task.
type work struct {
	act
	run     *run
	file    string // the list of the jobs that matched
	wait    time.Duration
	watched map[queue.Ref]bool // jobs of the stage whose outcome is not known yet
	longest time.Duration      // the longest time that one of them may take
}

func (r *Runner) work(ctx context.Context, run *run) error {
	w := &work{act: act{queue: r.Queue}, run: run, wait: r.wait, watched: map[queue.Ref]bool{}}
	if err := json.Unmarshal(run.Params, &w.params); err != nil {
		return fmt.Errorf("read the parameters of the task: %w", err)
	}
	w.params.complete(run.Kind)
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder for lists of jobs: %w", err)
	}
	w.file = r.listFile(run.ID)
	return w.do(ctx)
}

func (w *work) do(ctx context.Context) error {
	if !w.params.Listed {
		if err := w.list(ctx); err != nil {
			return err
		}
	}
	f, err := os.Open(w.file)
	if errors.Is(err, os.ErrNotExist) {
		return message.New("task.list_lost") // beginning again would act twice
	}
	if err != nil {
		return fmt.Errorf("read the list of jobs: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := w.resume(f); err != nil {
		return err
	}
	if _, err := f.Seek(w.params.Offset, io.SeekStart); err != nil {
		return fmt.Errorf("read the list of jobs: %w", err)
	}
	if err := w.afterChunk(ctx, nil); err != nil { // for the stage that a restart interrupted
		return err
	}
	return w.goThrough(ctx, bufio.NewReader(f))
}

// goThrough acts on the rest of the list, a chunk at a time.
func (w *work) goThrough(ctx context.Context, lines *bufio.Reader) error {
	for {
		targets, size, err := w.readTargets(lines, w.nextChunk())
		if err != nil {
			return err
		}
		if len(targets) == 0 {
			return w.over()
		}
		w.beginStage()
		before := w.params.Result.Done
		if err := w.chunk(ctx, targets); err != nil {
			return err
		}
		if s := w.stage(); s != nil {
			s.Redriven += w.params.Result.Done - before
		}
		w.params.Offset += size
		w.run.progress(int64(len(targets)), 0)
		w.keep(ctx)
		if err := w.afterChunk(ctx, targets); err != nil {
			return err
		}
		if w.params.Rate <= 0 {
			continue
		}
		if err := pause(ctx, time.Duration(float64(len(targets))/w.params.Rate*float64(time.Second))); err != nil {
			return err
		}
	}
}

// nextChunk returns the most jobs for the next chunk, which ends with its stage.
func (w *work) nextChunk() int64 {
	size := int64(chunkSize)
	if w.params.Rate > 0 {
		size = max(1, min(size, int64(w.params.Rate)))
	}
	if end := w.stageEnd(w.run.Done); end > w.run.Done {
		size = min(size, end-w.run.Done)
	}
	return size
}

// over ends a task whose list could not hold all matching jobs.
func (w *work) over() error {
	if w.params.Full {
		return stop("task.full", listLimit)
	}
	return nil
}

// keep stores the task's progress before the next step begins.
func (w *work) keep(ctx context.Context) {
	w.run.report(w.params)
	w.run.save(ctx)
}

// patiently repeats a step while a shard does not answer.
func (w *work) patiently(ctx context.Context, step func() error) error {
	for try := 1; ; try++ {
		err := step()
		if err == nil || ctx.Err() != nil || try == retryTimes {
			return err
		}
		if err := pause(ctx, w.wait); err != nil {
			return err
		}
	}
}

// chunk acts on listed jobs, grouped by topic and shard.
func (w *work) chunk(ctx context.Context, targets []target) error {
	for begin := 0; begin < len(targets); {
		end := begin + 1
		for end < len(targets) && targets[end].Shard == targets[begin].Shard && targets[end].Topic == targets[begin].Topic {
			end++
		}
		w.part(ctx, targets[begin:end])
		begin = end
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, errCancelled) {
		w.run.report(w.params) // not when this process ends: the next one repeats the chunk, and counts it
	}
	return cause
}

// part acts on jobs of one topic that were in one shard when they were listed.
func (w *work) part(ctx context.Context, targets []target) {
	refs := make([]queue.Ref, len(targets))
	for i, t := range targets {
		refs[i] = queue.Ref{Topic: t.Topic, ID: t.ID}
	}
	var jobs []*queue.Job
	err := w.patiently(ctx, func() (err error) {
		jobs, err = w.queue.Lookup(ctx, refs, targets[0].Shard)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			w.count(&w.params.Result.Failed, int64(len(targets)), err)
		}
		return
	}
	var todo []*queue.Job
	for i, t := range targets {
		if skip := w.judge(t, jobs[i]); skip != nil {
			w.count(skip, 1, nil)
			continue
		}
		todo = append(todo, jobs[i])
	}
	w.actOn(ctx, todo)
}

// judge returns the counter for a job that needs no action; nil for a job to act on.
func (w *work) judge(t target, j *queue.Job) *int64 {
	switch {
	case j == nil || j.CreatedAt.UnixMilli() != t.Created:
		return &w.params.Result.Gone
	case j.State == queue.Running:
		return &w.params.Result.Running
	case w.params.Do == Due && w.params.dueFrom(time.UnixMilli(t.At)).UnixMilli() == callTime(j).UnixMilli():
		return &w.params.Result.Done // done by the step that a restart interrupted
	case !w.params.Filter.Match(j),
		w.params.Do == Run && j.Attempts != t.Calls, // it was called since
		w.params.Do == Retry && j.DeadAt.UnixMilli() != t.At:
		return &w.params.Result.Moved
	}
	return nil
}
