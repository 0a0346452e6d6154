package bulk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
)

// Options of a Runner.
type Options struct {
	Store    Storage
	Queue    Queue
	Registry Registry
	Dir      string // for the lists of jobs
	Host     string // whose tasks the runner carries out
	// Lead takes or extends a lease, and reports whether this process holds it: a replaced process and its successor must
	// not both carry out their host's tasks. nil: there is only one process.
	Lead func(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	Log  *slog.Logger
	Now  func() time.Time

	PollEvery time.Duration // between polls of the store; 0: 2 s
}

// Registry has the topics.
type Registry interface{ Snapshot() *registry.Snapshot }

// Runner carries out the tasks of a host, a few at a time.
type Runner struct {
	Options
	kinds map[string]func(context.Context, *run) error
	nudge chan struct{}
	wait  time.Duration // before a failed step is repeated

	starting sync.Mutex

	mu      sync.Mutex
	running map[uint64]bool
}

const (
	tasksAtOnce = 4
	tasksPolled = 200
	lease       = 6 * time.Second // how long a process leads its host's tasks after each poll
	pollEvery   = 2 * time.Second

	leaseNameLimit = 56          // characters of the host's name in the name of a lease
	saveEvery      = time.Second // how often to store progress and check for a request to cancel
)

// NewRunner makes a Runner; Run starts it.
func NewRunner(o Options) *Runner {
	o.PollEvery = cmp.Or(o.PollEvery, pollEvery)
	r := &Runner{Options: o, nudge: make(chan struct{}, 1), wait: retryWait, running: map[uint64]bool{}}
	r.kinds = map[string]func(context.Context, *run) error{}
	for _, kind := range []string{KindRedrive, KindDeleteDead, KindJobs(Run), KindJobs(Retry), KindJobs(Delete),
		KindJobs(Due)} {
		r.kinds[kind] = r.work
	}
	return r
}

// Start stores a task for the runner of this host.
func (r *Runner) Start(ctx context.Context, actor, kind string, p Params) (uint64, error) {
	p.complete(kind)
	if err := p.validate(); err != nil {
		return 0, err
	}
	r.starting.Lock()
	defer r.starting.Unlock()
	if err := r.alone(ctx, p); err != nil {
		return 0, err
	}
	return r.start(ctx, actor, kind, p)
}

// alone refuses a task on dead jobs while another may work on the same jobs.
func (r *Runner) alone(ctx context.Context, p Params) error {
	if p.Filter.State != queue.Dead {
		return nil
	}
	list, err := r.Tasks(ctx, tasksPolled)
	if err != nil {
		return err
	}
	for _, t := range list {
		ending := t.CancelRequested && t.Silent()
		if t.Open() && !ending && t.About.Filter.State == queue.Dead && t.About.Filter.overlaps(p.Filter) {
			return message.New("task.overlaps", t.ID)
		}
	}
	return nil
}

func (r *Runner) start(ctx context.Context, actor, kind string, params any) (uint64, error) {
	b, err := json.Marshal(params)
	if err != nil {
		return 0, fmt.Errorf("start a task of the kind %s: %w", kind, err)
	}
	now := r.Now().UTC()
	id, err := r.Store.CreateTask(ctx, Record{
		Kind: kind, Params: b, State: Queued, Actor: actor, Host: r.Host, CreatedAt: now, UpdatedAt: now,
	})
	if err != nil {
		return 0, fmt.Errorf("start a task of the kind %s: %w", kind, err)
	}
	select {
	case r.nudge <- struct{}{}:
	default:
	}
	return id, nil
}

// Tasks lists tasks of all hosts, the newest first.
func (r *Runner) Tasks(ctx context.Context, limit int) ([]Task, error) {
	rows, err := r.Store.ListTasks(ctx, limit)
	list := make([]Task, len(rows))
	for i, row := range rows {
		list[i] = newTask(row)
	}
	return list, err
}

// Task reads a task. Errors: ErrNoTask.
func (r *Runner) Task(ctx context.Context, id uint64) (*Task, error) {
	row, err := r.Store.GetTask(ctx, id)
	if err != nil {
		return nil, err
	}
	t := newTask(*row)
	return &t, nil
}

// Cancel requests the end of a task. Errors: ErrNoTask.
func (r *Runner) Cancel(ctx context.Context, actor string, id uint64) error {
	return r.Store.CancelTask(ctx, actor, id)
}

// Run works until ctx is done. The next process resumes unfinished tasks.
func (r *Runner) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		next := time.After(r.PollEvery) // counted from before the poll: a long one must not let the lease lapse
		for _, task := range r.waiting(ctx) {
			wg.Go(func() { r.carryOut(ctx, task) })
		}
		select {
		case <-ctx.Done():
		case <-next:
		case <-r.nudge:
		}
	}
	return nil
}

// waiting returns open tasks of this host that this process does not carry out yet. It takes the lease only when there
// is work, since that is a write.
func (r *Runner) waiting(ctx context.Context) []Record {
	taken := r.taken() // before the store is read, which may show a task as open that ends meanwhile
	list := r.open(ctx)
	if len(list) > 0 && r.Lead != nil {
		if leads, err := r.lead(ctx); err != nil || !leads {
			return nil
		}
		list = r.open(ctx) // another process may have ended some before its lease ended
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var take []Record
	for _, t := range slices.Backward(list) { // the oldest first
		if taken[t.ID] || r.running[t.ID] || len(r.running) >= tasksAtOnce {
			continue
		}
		r.running[t.ID] = true
		take = append(take, t)
	}
	return take
}

func (r *Runner) lead(ctx context.Context) (bool, error) {
	host := database.Clip(r.Host, leaseNameLimit)
	return r.Lead(ctx, "tasks/"+host, fmt.Sprintf("%s/%d", host, os.Getpid()), lease)
}

// taken returns the tasks that this process carries out.
func (r *Runner) taken() map[uint64]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.running)
}

// open lists the tasks of this host that have not ended, the newest first.
func (r *Runner) open(ctx context.Context) []Record {
	list, err := r.Store.ListTasks(ctx, tasksPolled)
	if err != nil {
		r.Log.Debug("list tasks", "error", err)
		return nil
	}
	return slices.DeleteFunc(list, func(t Record) bool {
		task := Task{Record: t}
		return !task.Open() || r.kinds[t.Kind] == nil || t.Host != r.Host && !r.hasList(t.ID)
	})
}

// hasList reports whether a task was begun with this folder, perhaps under another host name: a recreated container has
// a new one.
func (r *Runner) hasList(id uint64) bool {
	_, err := os.Stat(r.listFile(id))
	return err == nil
}

var (
	errCancelled = errors.New("cancelled")
	errEnded     = errors.New("the task ended")
)

func (r *Runner) carryOut(ctx context.Context, t Record) {
	defer func() {
		r.mu.Lock()
		delete(r.running, t.ID)
		r.mu.Unlock()
	}()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(errEnded)
	run := &run{Record: t, runner: r}
	run.State, run.Host = Running, r.Host
	run.save(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(inner, run, cancel) })
	err := r.kinds[t.Kind](inner, run)
	if cause := context.Cause(inner); err != nil && cause != nil {
		err = cause
	}
	cancel(errEnded)
	watch.Wait()
	if err != nil && ctx.Err() != nil {
		return // this process ends, not the task
	}
	if run.end(ctx, err) {
		_ = os.Remove(r.listFile(t.ID))
	}
}

// listFile returns the name of the file that lists a task's jobs.
func (r *Runner) listFile(id uint64) string {
	return filepath.Join(r.Dir, "task-"+strconv.FormatUint(id, 10)+".jsonl")
}

// watch stores the progress and checks for a request to cancel.
func (r *Runner) watch(ctx context.Context, run *run, cancel context.CancelCauseFunc) {
	t := time.NewTicker(min(saveEvery, r.PollEvery))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		run.save(ctx)
		is, err := r.Store.GetTask(ctx, run.ID)
		if err == nil && is.CancelRequested {
			cancel(errCancelled)
			return
		}
	}
}
