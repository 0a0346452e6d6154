package bulk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/store"
)

const (
	chunkSize  = 200 // jobs; an interrupted chunk is repeated
	retryTimes = 30  // attempts of a step that the queue rejects
	retryWait  = 2 * time.Second
)

// work runs one task.
type work struct {
	act
	runner    *Runner
	task      Task
	params    *Params // of the task
	checkedIn time.Time

	pending  map[store.Ref]bool // jobs of the stage whose outcome is not yet known
	patience time.Duration      // how long one of them may take at most
}

func newWork(r *Runner, t Task) *work {
	w := &work{runner: r, task: t, pending: map[store.Ref]bool{}}
	w.params = &w.task.Params
	w.queue, w.action = r.Queue, w.params.Action
	return w
}

func (w *work) do(ctx context.Context) error {
	if !w.params.Listed {
		if err := w.list(ctx); err != nil {
			return err
		}
	}
	if w.params.DryRun {
		return nil
	}
	f, err := os.Open(w.runner.listFile(w.task.ID))
	if errors.Is(err, os.ErrNotExist) {
		return message.New("task.list_lost") // starting over would act twice
	}
	if err != nil {
		return fmt.Errorf("read the job list: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := w.resumeStage(ctx, f); err != nil {
		return err
	}
	if _, err := f.Seek(w.params.Offset, io.SeekStart); err != nil {
		return fmt.Errorf("read the job list: %w", err)
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
		if len(targets) == 0 && w.params.Full {
			return stop("task.full", listLimit)
		}
		if len(targets) == 0 {
			return nil
		}
		w.beginStage()
		if err := w.chunk(ctx, targets, size); err != nil {
			return err
		}
		if err := w.afterChunk(ctx, targets); err != nil {
			return err
		}
		if err := w.pause(ctx, w.restAfter(len(targets))); err != nil {
			return err
		}
	}
}

// restAfter returns how long to rest after n jobs, for the task's rate.
func (w *work) restAfter(n int) time.Duration {
	if w.params.Rate <= 0 {
		return 0
	}
	return time.Duration(float64(n) / w.params.Rate * float64(time.Second))
}

// nextChunk returns the maximum size of the next chunk, which does not extend past its stage.
func (w *work) nextChunk() int64 {
	size := int64(chunkSize)
	if w.params.Rate > 0 {
		size = max(1, min(size, int64(w.params.Rate)))
	}
	if end := w.stageEnd(w.task.Done); end > w.task.Done {
		size = min(size, end-w.task.Done)
	}
	return size
}

// patiently retries a step while a shard does not answer.
func (w *work) patiently(ctx context.Context, step func() error) error {
	for try := 1; ; try++ {
		err := step()
		if err == nil || ctx.Err() != nil || try == retryTimes {
			return err
		}
		if err := w.pause(ctx, w.runner.wait); err != nil {
			return err
		}
	}
}

// chunk acts on listed jobs, which take size bytes of the list, and stores the progress. If the process ends meanwhile,
// the chunk is not counted, and the next process repeats it.
func (w *work) chunk(ctx context.Context, targets []target, size int64) error {
	var result Result
	w.result = &result
	err := w.parts(ctx, targets)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.params.Result.Add(result)
	if err != nil {
		return err
	}
	if s := w.stage(); s != nil {
		s.Redriven += result.Done
	}
	w.params.Offset += size
	w.task.Done += int64(len(targets))
	w.store(ctx)
	return nil
}

// parts acts on listed jobs, grouped by topic and shard.
func (w *work) parts(ctx context.Context, targets []target) error {
	for begin := 0; begin < len(targets); {
		first, end := targets[begin], begin+1
		for end < len(targets) && targets[end].Shard == first.Shard && targets[end].Topic == first.Topic {
			end++
		}
		if err := w.part(ctx, targets[begin:end]); err != nil {
			return err
		}
		begin = end
	}
	return nil
}

// part acts on jobs of one topic that were in the same shard when they were listed. An error ends the task.
func (w *work) part(ctx context.Context, targets []target) error {
	refs := make([]store.Ref, len(targets))
	for i, t := range targets {
		refs[i] = store.Ref{Topic: t.Topic, ID: t.ID}
	}
	var jobs []*store.Job
	err := w.patiently(ctx, func() (err error) {
		jobs, err = find(ctx, w.queue, refs, targets[0].Shard)
		return err
	})
	switch {
	case errors.Is(err, errCancelled) || ctx.Err() != nil:
		return err
	case err != nil:
		w.result.Add(Result{Failed: int64(len(targets)), Error: err.Error()})
		return nil
	}
	var todo []*store.Job
	for i, t := range targets {
		if skip := w.skip(t, jobs[i]); skip != nil {
			*skip++
			continue
		}
		todo = append(todo, jobs[i])
	}
	w.actOn(store.By(ctx, w.task.Actor), todo)
	return nil
}

// skip returns the counter of a job to skip, or nil for a job to act on.
func (w *work) skip(t target, j *store.Job) *int64 {
	switch {
	case j == nil || j.CreatedAt.UnixMilli() != t.Created:
		return &w.result.Gone
	case j.State == store.Running:
		return &w.result.Running
	case w.action.Do == Due && w.action.changed(time.UnixMilli(t.At), j):
		return &w.result.Done // done by the step interrupted by a restart
	case !w.params.Filter.Match(j),
		w.action.Do == Run && j.Attempts != t.Calls, // called since
		w.action.Do == Retry && j.DeadAt.UnixMilli() != t.At:
		return &w.result.Moved
	}
	return nil
}
