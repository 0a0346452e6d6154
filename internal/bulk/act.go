package bulk

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// Queue is the part of the queue that actions on jobs need.
type Queue interface {
	Lister
	Find(ctx context.Context, refs []store.Ref) ([]*store.Job, error)
	Get(ctx context.Context, topic, id string, also ...store.State) (*store.Job, error)
	Change(ctx context.Context, topic, id string, change store.Change) (*store.Job, error)
	Delete(ctx context.Context, topic, id string, m store.Match) error
	RunNow(ctx context.Context, topic, id string, m store.Match) (*store.Job, error)
	EndDead(ctx context.Context, c store.DeadCall) (int, error)
}

const callsAtOnce = 8

// act performs an action on jobs and counts the outcomes.
type act struct {
	queue  Queue
	action Action
	mu     sync.Mutex
	result *Result
}

// Apply immediately acts on jobs of a topic that were shown in a state (empty: any), as far as the current state of
// each allows. It skips running jobs, dead jobs that are alive again, and jobs that have died since. Failures are only
// counted in the result.
func Apply(
	ctx context.Context, q Queue, topic string, ids []string, do Action, shown store.State,
) (result Result, err error) {
	if !slices.Contains([]string{Run, Retry, Delete, Due}, do.Do) {
		return result, message.New("task.no_action", do.Do, "")
	}
	refs := make([]store.Ref, len(ids))
	for i, id := range ids {
		refs[i] = store.Ref{Topic: topic, ID: id}
	}
	jobs, err := find(ctx, q, refs, "")
	if err != nil {
		return result, err
	}
	a := &act{queue: q, action: do, result: &result}
	var dead, others []*store.Job
	for _, j := range jobs {
		switch {
		case j == nil:
			result.Gone++
		case j.State == store.Running:
			result.Running++
		case !do.fits(j, shown):
			result.Moved++
		case j.State == store.Dead:
			dead = append(dead, j)
		default:
			others = append(others, j)
		}
	}
	a.actOn(ctx, others)
	a.actOn(ctx, dead)
	return result, nil
}

// find returns the jobs of refs that have not finished. Shards that do not answer count as without jobs, except one.
func find(ctx context.Context, q Queue, refs []store.Ref, except string) ([]*store.Job, error) {
	jobs, err := store.Live(q.Find(ctx, refs))
	_, away := errors.AsType[*store.UnavailableError](err)
	if queue.IsPartial(err) && away && !slices.Contains(queue.Missing(err), except) {
		return jobs, nil
	}
	return jobs, err
}

// actOn acts on jobs of one topic that are either all dead or all alive.
func (a *act) actOn(ctx context.Context, jobs []*store.Job) {
	if len(jobs) == 0 || ctx.Err() != nil {
		return
	}
	if jobs[0].State == store.Dead {
		a.actOnDead(ctx, jobs)
		return
	}
	var wg sync.WaitGroup
	next := make(chan *store.Job)
	for range min(callsAtOnce, len(jobs)) {
		wg.Go(func() {
			for j := range next {
				if ctx.Err() == nil {
					a.count(ctx, a.actOnOne(ctx, j))
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

func (a *act) actOnOne(ctx context.Context, j *store.Job) (err error) {
	switch a.action.Do {
	case Run:
		_, err = a.queue.RunNow(ctx, j.Topic, j.ID, nil)
	case Delete:
		err = a.queue.Delete(ctx, j.Topic, j.ID, nil)
	case Due:
		var c store.Change
		if c, err = a.action.change(j); err == nil {
			_, err = a.queue.Change(ctx, j.Topic, j.ID, c)
		}
	}
	return err
}

// count counts the outcome of one call, unless the call was interrupted: the task then resumes with its job.
func (a *act) count(ctx context.Context, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil && ctx.Err() != nil:
	case err == nil:
		a.result.Done++
	case errors.Is(err, store.ErrNotFound):
		a.result.Gone++
	case errors.Is(err, store.ErrRunning):
		a.result.Running++
	case errors.Is(err, store.ErrDead):
		a.result.Moved++
	default:
		a.result.Add(Result{Failed: 1, Error: err.Error()})
	}
}

func (a *act) actOnDead(ctx context.Context, jobs []*store.Job) {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	kind := store.Redriven
	if a.action.Do == Delete {
		kind = store.DeadDeleted
	}
	n, err := a.queue.EndDead(ctx, store.DeadCall{Kind: kind, Topic: jobs[0].Topic, IDs: ids})
	a.result.Done += int64(n)
	rest := int64(len(ids) - n)
	switch {
	case err != nil && ctx.Err() != nil:
	case rest > 0 && err != nil:
		a.result.Add(Result{Failed: rest, Error: err.Error()})
	default:
		a.result.Gone += rest
	}
}
