package bulk

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/store"
)

// Options of a Runner.
type Options struct {
	Storage
	Queue    Queue
	Registry Registry
	Dir      string // for job lists
	Host     string // whose tasks the runner runs
	// Lead takes or extends a lease, and reports whether this process holds it. It keeps a process that is being
	// replaced and its successor from both running their host's tasks. nil: there is only one process.
	Lead func(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	Log  *slog.Logger
	Now  func() time.Time

	PollEvery time.Duration // between polls of the store; 0: 2 s
}

// Registry provides the topics.
type Registry interface{ Snapshot() *registry.Snapshot }

// Runner runs the tasks of a host, a few at a time.
type Runner struct {
	Options
	wake chan struct{}
	wait time.Duration // before a failed step is retried

	mu      sync.Mutex
	running map[uint64]context.CancelFunc
}

const (
	tasksAtOnce = 4
	tasksOpen   = 100 // of an installation
	pollEvery   = 2 * time.Second
	lease       = 6 * time.Second // how long a poll extends the lease on the host's tasks
	leaseName   = 56              // characters of the host's name in a lease's name
)

// NewRunner returns a Runner; Run starts it.
func NewRunner(o Options) *Runner {
	o.PollEvery = cmp.Or(o.PollEvery, pollEvery)
	return &Runner{Options: o, wake: make(chan struct{}, 1), wait: retryWait, running: map[uint64]context.CancelFunc{}}
}

// Start stores a task for the runner of this host, and returns its id. If the actor has started a task with the same
// key before, it returns the id of that one.
func (r *Runner) Start(ctx context.Context, actor string, p Params) (id uint64, err error) {
	if err := p.validate(); err != nil {
		return 0, err
	}
	now := r.Now().UTC()
	id, err = r.CreateTask(ctx, Task{
		Kind: p.Do, Params: p, State: Queued, Actor: actor, Host: r.Host, CreatedAt: now, UpdatedAt: now,
	}, p.admit)
	if err != nil {
		return 0, fmt.Errorf("start task: %w", err)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return id, nil
}

// admit returns an error if there are too many open tasks, or if one of them may act on the same dead jobs.
func (p Params) admit(open []Task) error {
	if len(open) >= tasksOpen {
		return message.New("task.too_many", tasksOpen)
	}
	if p.Filter.State != store.Dead || p.DryRun {
		return nil
	}
	for _, t := range open {
		ending := t.CancelRequested && t.Silent()
		if !ending && !t.Params.DryRun && t.Params.Filter.State == store.Dead && t.Params.Filter.overlaps(p.Filter) {
			return message.New("task.overlaps", t.ID)
		}
	}
	return nil
}

// Run works until ctx is done. The next process resumes unfinished tasks.
func (r *Runner) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		next := time.After(r.PollEvery) // from before the poll: the lease must not expire during a long one
		for _, t := range r.take(ctx) {
			working, stop := context.WithCancel(ctx)
			r.mu.Lock()
			r.running[t.ID] = stop
			r.mu.Unlock()
			wg.Go(func() {
				defer stop()
				r.carryOut(working, t)
			})
		}
		select {
		case <-ctx.Done():
		case <-next:
		case <-r.wake:
		}
	}
	return nil
}

// take returns open tasks of this host that this process does not run yet. It takes the lease only when there is work,
// because taking it is a write. If another process holds it, that process runs the tasks, and this one stops its own.
func (r *Runner) take(ctx context.Context) (tasks []Task) {
	taken := r.taken() // before the store is read: a task that it returns as open may end meanwhile
	list := r.open(ctx)
	if len(list) > 0 && r.Lead != nil {
		leads, err := r.lead(ctx)
		if err == nil && !leads {
			r.stopAll()
		}
		if err != nil || !leads {
			return nil
		}
		list = r.open(ctx) // another process may have ended some before its lease expired
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range slices.Backward(list) { // the oldest first
		if taken[t.ID] || len(r.running)+len(tasks) >= tasksAtOnce {
			continue
		}
		tasks = append(tasks, t)
	}
	return tasks
}

func (r *Runner) stopAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, stop := range r.running {
		stop()
	}
}

func (r *Runner) lead(ctx context.Context) (bool, error) {
	host := database.Clip(r.Host, leaseName)
	return r.Lead(ctx, "tasks/"+host, fmt.Sprintf("%s/%d", host, os.Getpid()), lease)
}

// taken returns the tasks that this process runs.
func (r *Runner) taken() map[uint64]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make(map[uint64]bool, len(r.running))
	for id := range r.running {
		ids[id] = true
	}
	return ids
}

// open lists the tasks of this host that have not ended, newest first. A task also belongs to this host if its job list
// is here: a recreated container has another host name.
func (r *Runner) open(ctx context.Context) []Task {
	list, err := r.OpenTasks(ctx)
	if err != nil {
		r.Log.Debug("list tasks", "error", err)
		return nil
	}
	return slices.DeleteFunc(list, func(t Task) bool {
		if t.Host == r.Host {
			return false
		}
		_, err := os.Stat(r.listFile(t.ID))
		return err != nil
	})
}

func (r *Runner) carryOut(ctx context.Context, t Task) {
	defer func() {
		r.mu.Lock()
		delete(r.running, t.ID)
		r.mu.Unlock()
	}()
	t.State, t.Host = Running, r.Host
	w := newWork(r, t)
	w.store(ctx)
	err := w.do(ctx)
	if err != nil && ctx.Err() != nil {
		return // this process ends, but not the task
	}
	if w.end(ctx, err) {
		_ = os.Remove(r.listFile(t.ID))
	}
}

// listFile returns the path of a task's job list.
func (r *Runner) listFile(id uint64) string {
	return filepath.Join(r.Dir, "task-"+strconv.FormatUint(id, 10)+".jsonl")
}
