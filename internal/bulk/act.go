package bulk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/queue"
)

// Queue is the part of the queue that work on jobs needs.
type Queue interface {
	List(ctx context.Context, topic string, s queue.State, cursor string, limit int) ([]queue.Job, string, error)
	Lookup(ctx context.Context, refs []queue.Ref, shard string) ([]*queue.Job, error)
	Get(ctx context.Context, topic, id string) (*queue.Job, error)
	Change(ctx context.Context, topic, id string, change queue.Change) (*queue.Job, error)
	Delete(ctx context.Context, topic, id string) error
	RunNow(ctx context.Context, topic, id string) (*queue.Job, error)
	RedriveDead(ctx context.Context, topic string, ids []string, limit int) (int, error)
	DeleteDead(ctx context.Context, topic string, ids []string, limit int) (int, error)
}

const callsAtOnce = 8

// act performs one action on jobs and counts the outcomes.
type act struct {
	queue  Queue
	params Params
	mu     sync.Mutex // guards params.Result
}

// Action is the action of Apply: run, retry, delete, or due with a time or a shift.
type Action struct {
	Do    string
	At    time.Time
	Shift time.Duration
	// State is the one in which the jobs were shown; empty: any. Jobs that were dead and are alive again are left
	// alone, and so are jobs that have died since.
	State queue.State
}

// over reports whether a job's state no longer fits the action, or the state in which the job was shown.
func (d Action) over(j *queue.Job) bool {
	dead := j.State == queue.Dead
	return dead && d.Do == Due || !dead && d.Do == Retry || d.State != "" && dead != (d.State == queue.Dead)
}

// Apply acts at once on jobs of a topic, each as its state allows; running ones are left alone. The result counts
// failures.
func Apply(ctx context.Context, q Queue, topic string, ids []string, do Action) (Result, error) {
	if !slices.Contains([]string{Run, Retry, Delete, Due}, do.Do) {
		return Result{}, message.New("task.no_action", do.Do, "")
	}
	refs := make([]queue.Ref, len(ids))
	for i, id := range ids {
		refs[i] = queue.Ref{Topic: topic, ID: id}
	}
	jobs, err := q.Lookup(ctx, refs, "")
	if err != nil {
		return Result{}, err
	}
	a := &act{queue: q, params: Params{Do: do.Do, At: do.At, Shift: do.Shift}}
	var dead, others []*queue.Job
	for _, j := range jobs {
		switch {
		case j == nil:
			a.count(&a.params.Result.Gone, 1, nil)
		case j.State == queue.Running:
			a.count(&a.params.Result.Running, 1, nil)
		case do.over(j):
			a.count(&a.params.Result.Moved, 1, nil)
		case j.State == queue.Dead:
			dead = append(dead, j)
		default:
			others = append(others, j)
		}
	}
	a.actOn(ctx, others)
	a.actOn(ctx, dead)
	return a.params.Result, nil
}

// count adds to a number in the result.
func (a *act) count(number *int64, n int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*number += n
	if err != nil && a.params.Result.Error == "" {
		a.params.Result.Error = err.Error()
	}
}

// actOn acts on jobs of one topic, either all dead or none.
func (a *act) actOn(ctx context.Context, jobs []*queue.Job) {
	if len(jobs) == 0 || ctx.Err() != nil {
		return
	}
	if jobs[0].State == queue.Dead {
		a.actOnDead(ctx, jobs)
		return
	}
	var wg sync.WaitGroup
	next := make(chan *queue.Job)
	for range min(callsAtOnce, len(jobs)) {
		wg.Go(func() {
			for j := range next {
				if ctx.Err() == nil {
					a.countOutcome(ctx, a.actOnOne(ctx, j))
				}
			}
		})
	}
	for _, j := range jobs {
		next <- j
	}
	close(next)
	wg.Wait()
}

func (a *act) actOnOne(ctx context.Context, j *queue.Job) (err error) {
	switch a.params.Do {
	case Run:
		_, err = a.queue.RunNow(ctx, j.Topic, j.ID)
	case Delete:
		err = a.queue.Delete(ctx, j.Topic, j.ID)
	case Due:
		due := a.params.dueFrom(callTime(j))
		_, err = a.queue.Change(ctx, j.Topic, j.ID, queue.Change{DueAt: &due})
	}
	return err
}

func (a *act) countOutcome(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() != nil: // the task ends, or will resume with this job
	case err == nil:
		a.count(&a.params.Result.Done, 1, nil)
	case errors.Is(err, queue.ErrNotFound):
		a.count(&a.params.Result.Gone, 1, nil)
	case errors.Is(err, queue.ErrRunning):
		a.count(&a.params.Result.Running, 1, nil)
	case errors.Is(err, queue.ErrDead):
		a.count(&a.params.Result.Moved, 1, nil)
	default:
		a.count(&a.params.Result.Failed, 1, err)
	}
}

func (a *act) actOnDead(ctx context.Context, jobs []*queue.Job) {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	do := a.queue.RedriveDead
	if a.params.Do == Delete {
		do = a.queue.DeleteDead
	}
	n, err := do(ctx, jobs[0].Topic, ids, len(ids))
	a.count(&a.params.Result.Done, int64(n), nil)
	rest := int64(len(ids) - n)
	switch {
	case err != nil && ctx.Err() != nil:
	case rest > 0 && err != nil:
		a.count(&a.params.Result.Failed, rest, err)
	case rest > 0:
		a.count(&a.params.Result.Gone, rest, nil)
	}
}
