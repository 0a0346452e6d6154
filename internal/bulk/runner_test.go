package bulk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// tasks keeps tasks in memory.
type tasks struct {
	mu   sync.Mutex
	list []Task
}

func (s *tasks) CreateTask(ctx context.Context, t Task, admit func([]Task) error) (uint64, error) {
	open, _ := s.OpenTasks(ctx)
	if err := admit(open); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.ID = uint64(len(s.list) + 1)
	s.list = append(s.list, t)
	return t.ID, nil
}

func (s *tasks) UpdateTask(_ context.Context, t Task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.CancelRequested = s.list[t.ID-1].CancelRequested
	t.Params.Stages = slices.Clone(t.Params.Stages) // as a database would
	s.list[t.ID-1] = t
	return nil
}

func (s *tasks) GetTask(_ context.Context, id uint64) (*Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.list[id-1]
	t.Params.Stages = slices.Clone(t.Params.Stages)
	return &t, nil
}

func (s *tasks) ListTasks(context.Context, int) ([]Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.list)
	slices.Reverse(list)
	return list, nil
}

func (s *tasks) OpenTasks(ctx context.Context) ([]Task, error) {
	list, err := s.ListTasks(ctx, 0)
	return slices.DeleteFunc(list, func(t Task) bool { return !t.Open() }), err
}

func (s *tasks) CancelTask(_ context.Context, _ string, id uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[id-1].CancelRequested = true
	return nil
}

// jobs is a queue in memory. Re-driven jobs are delivered at once, unless outcome says otherwise.
type jobs struct {
	Queue   // nil: the other methods are not needed here
	mu      sync.Mutex
	all     map[string]store.Job
	changed int
	outcome func(store.Job) *store.Job
	after   func() // each change
}

// stock adds n jobs in a state, due a second after each other.
func stock(s store.State, n int, begin time.Time) *jobs {
	q := &jobs{all: map[string]store.Job{}}
	for i := range n {
		j := store.Job{Topic: "shop", ID: fmt.Sprintf("job-%04d", i), State: s, CreatedAt: time.UnixMilli(1),
			Shard: "a"}
		if j.DueAt = begin.Add(time.Duration(i) * time.Second); s == store.Dead {
			j.DeadAt = begin
		}
		q.all[j.ID] = j
	}
	return q
}

func (q *jobs) List(_ context.Context, _ string, s store.State, cursor string, limit int) ([]store.Job, string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []store.Job
	for _, id := range slices.Sorted(maps.Keys(q.all)) {
		if q.all[id].State == s && id > cursor {
			list = append(list, q.all[id])
		}
	}
	if len(list) <= limit {
		return list, "", nil
	}
	return list[:limit], list[limit-1].ID, nil
}

func (q *jobs) Find(_ context.Context, refs []store.Ref) ([]*store.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]*store.Job, len(refs))
	for i, r := range refs {
		if j, ok := q.all[r.ID]; ok {
			list[i] = &j
		}
	}
	return list, nil
}

func (q *jobs) Get(_ context.Context, _, id string, _ ...store.State) (*store.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j, ok := q.all[id]; ok {
		return &j, nil
	}
	return nil, store.ErrNotFound
}

func (q *jobs) Change(_ context.Context, _, id string, c store.Change) (*store.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.all[id]
	j.DueAt = *c.DueAt
	q.all[id] = j
	q.count()
	return &j, nil
}

func (q *jobs) count() {
	if q.changed++; q.after != nil {
		q.after()
	}
}

func (q *jobs) EndDead(_ context.Context, c store.DeadCall) (n int, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range c.IDs {
		j, ok := q.all[id]
		if !ok || j.State != store.Dead {
			continue
		}
		n++
		delete(q.all, id)
		if q.outcome != nil {
			if left := q.outcome(j); left != nil {
				q.all[id] = *left
			}
		}
		q.count()
	}
	return n, nil
}

// topics is a registry with the named topics.
type topics []string

func (t topics) Snapshot() *registry.Snapshot {
	var list []*registry.Topic
	for _, name := range t {
		topic := registry.NewTopic(name)
		list = append(list, &topic)
	}
	return &registry.Snapshot{Topics: registry.NewTopics(list...)}
}

func newRunner(t *testing.T, q Queue) *Runner {
	t.Helper()
	return NewRunner(Options{
		Storage: &tasks{}, Queue: q, Registry: topics{"shop"}, Dir: t.TempDir(), Host: "here",
		Log: slog.New(slog.DiscardHandler), Now: time.Now, PollEvery: time.Millisecond,
	})
}

// redrive returns the params of a re-drive of the topic.
func redrive(p Params) Params {
	p.Filter, p.Action = Filter{Topic: "shop", State: store.Dead}, Action{Do: Retry}
	return p
}

// runUntil runs tasks until done returns true, or the test fails.
func runUntil(t *testing.T, r *Runner, done func(*Task) bool) *Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	for ctx.Err() == nil {
		if task, err := r.GetTask(ctx, 1); err == nil && done(task) {
			return task
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the task did not reach the state")
	return nil
}

func hasEnded(task *Task) bool { return !task.Open() }

// TestJobsThatMoveAreNeitherForgottenNorTouched: jobs that matched when the list was written are acted on, according to
// their present state.
func TestJobsThatMoveAreNeitherForgottenNorTouched(t *testing.T) {
	begin := time.Now().Add(time.Hour).Truncate(time.Second)
	q := stock(store.Delayed, 300, begin)
	r := newRunner(t, q)
	id, err := r.Start(t.Context(), "user/x", Params{
		Filter: Filter{Topic: "shop", State: store.Delayed}, Action: Action{Do: Due, Shift: -10 * time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	task, _ := r.GetTask(t.Context(), id)
	w := newWork(r, *task)
	if err := w.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Meanwhile one becomes ready, one is gone, one is a new job with the same id, and one is changed by another user.
	change := func(id string, do func(*store.Job)) {
		j := q.all[id]
		do(&j)
		q.all[id] = j
	}
	change("job-0001", func(j *store.Job) { j.State = store.Ready })
	delete(q.all, "job-0002")
	change("job-0003", func(j *store.Job) { j.CreatedAt = time.Now() })
	moved := begin.Add(5 * time.Hour)
	change("job-0004", func(j *store.Job) { j.DueAt = moved })
	if err := w.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := (Result{Done: 297, Gone: 2, Moved: 1}); w.params.Result != want {
		t.Errorf("the result is %+v, want %+v", w.params.Result, want)
	}
	for id, want := range map[string]time.Time{
		"job-0000": begin.Add(-10 * time.Minute), "job-0003": begin.Add(3 * time.Second),
		"job-0004": moved.Add(-10 * time.Minute),
	} {
		if got := q.all[id].DueAt; !got.Equal(want) {
			t.Errorf("%s is due at %v, want %s", id, got, want)
		}
	}
}

// TestAStageIsJudgedThoughTheProcessRestarts: if a process ends while a stage waits for its outcomes, they are still
// counted before the next stage.
func TestAStageIsJudgedThoughTheProcessRestarts(t *testing.T) {
	q := stock(store.Dead, 250, time.Now().Add(-time.Hour))
	waiting := func(j store.Job) *store.Job {
		j.State, j.Attempts = store.Ready, 0
		return &j
	}
	q.outcome = waiting
	r := newRunner(t, q)
	if _, err := r.Start(t.Context(), "user/x", redrive(Params{Staged: true, StopAbove: 0.2})); err != nil {
		t.Fatal(err)
	}
	task := runUntil(t, r, func(task *Task) bool {
		return len(task.Params.Stages) == 1 && task.Params.Stages[0].Waiting == firstStage
	})
	if !task.Open() || q.changed != firstStage {
		t.Fatalf("the task is %+v after %d jobs", task, q.changed)
	}
	n := 0
	for id, j := range q.all { // half of the stage fails while no process runs
		if j.State == store.Ready {
			if n++; n%2 == 0 {
				j.State, j.Attempts = store.Delayed, 1
				q.all[id] = j
			} else {
				delete(q.all, id)
			}
		}
	}
	task = runUntil(t, r, hasEnded)
	if s := task.Params.Stages[0]; task.State != Stopped || task.Why() == nil || q.changed != firstStage ||
		s.Delivered != 5 || s.Failed != 5 {
		t.Errorf("%d jobs were re-driven, and the task is %+v, %+v", q.changed, task, s)
	}
	if task.Errors != 5 {
		t.Errorf("%d failures are counted", task.Errors)
	}
}

func TestATaskIsDoneOnceDespiteARestart(t *testing.T) {
	begin := time.Now().Add(time.Hour).Truncate(time.Second)
	q := stock(store.Delayed, 1000, begin)
	r := newRunner(t, q)
	ctx, cancel := context.WithCancel(t.Context())
	q.after = func() {
		if q.changed == 450 {
			cancel()
		}
	}
	if _, err := r.Start(ctx, "user/x", Params{
		Filter: Filter{Topic: "shop", State: store.Delayed}, Action: Action{Do: Due, Shift: time.Hour},
	}); err != nil {
		t.Fatal(err)
	}
	_ = r.Run(ctx)
	if task, _ := r.GetTask(t.Context(), 1); task.State != Running {
		t.Fatalf("the task is %s after its process ended", task.State)
	}
	r.Host = "renamed" // as a recreated container is
	if task := runUntil(t, r, hasEnded); task.State != Done || task.Params.Result != (Result{Done: 1000}) {
		t.Errorf("the task is %+v", task)
	}
	for id, j := range q.all {
		n, _ := strconv.Atoi(id[len("job-"):])
		if want := begin.Add(time.Hour + time.Duration(n)*time.Second); !j.DueAt.Equal(want) {
			t.Fatalf("%s is due at %s, want %s", id, j.DueAt, want)
		}
	}
}

// awayShard is a queue whose shard b does not answer.
type awayShard struct {
	*jobs
	asked func()
}

func (q *awayShard) Find(ctx context.Context, refs []store.Ref) ([]*store.Job, error) {
	if refs[0].ID == "waits" {
		q.asked()
	}
	jobs, _ := q.jobs.Find(ctx, refs)
	return jobs, &queue.PartialError{Shards: []string{"b"}, Err: &store.UnavailableError{Err: errors.New("no shard")}}
}

// TestAPartOfAChunkIsCountedOnceOnly: when the task is cancelled, but not when the process ends, because the next
// process repeats the whole chunk.
func TestAPartOfAChunkIsCountedOnceOnly(t *testing.T) {
	targets := []target{{Topic: "shop", Shard: "a", ID: "gone"}, {Topic: "shop", Shard: "b", ID: "waits"}}
	for want, counted := range map[error]int64{context.Canceled: 0, errCancelled: 1} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		q := &awayShard{jobs: stock(store.Dead, 0, time.Now())}
		r := newRunner(t, q)
		id, err := r.Start(ctx, "user/x", redrive(Params{}))
		if err != nil {
			t.Fatal(err)
		}
		q.asked = cancel
		if want == errCancelled {
			q.asked = func() { _ = r.CancelTask(ctx, "user/x", id) }
		}
		task, _ := r.GetTask(ctx, id)
		w := newWork(r, *task)
		if err := w.chunk(ctx, targets, 1); !errors.Is(err, want) || w.params.Result.Gone != counted {
			t.Errorf("%v, and the result is %+v; want %v", err, w.params.Result, want)
		}
	}
}

// slowTasks answers the runner's second List only when the test permits it. Start makes the first one.
type slowTasks struct {
	*tasks
	lists          atomic.Int32
	listed, answer chan struct{}
}

func (s *slowTasks) OpenTasks(ctx context.Context) ([]Task, error) {
	list, err := s.tasks.OpenTasks(ctx)
	if s.lists.Add(1) == 2 {
		close(s.listed)
		<-s.answer
	}
	return list, err
}

// TestATaskThatEndsWhileTasksAreListedIsDoneOnce although the list still shows it as open.
func TestATaskThatEndsWhileTasksAreListedIsDoneOnce(t *testing.T) {
	q := stock(store.Dead, 30, time.Now())
	r := newRunner(t, q)
	slow := &slowTasks{tasks: r.Storage.(*tasks), listed: make(chan struct{}), answer: make(chan struct{})}
	r.Storage = slow
	q.after = func() { <-slow.listed }
	id, err := r.Start(t.Context(), "me", redrive(Params{}))
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	runUntil(t, r, func(task *Task) bool {
		if hasEnded(task) && !r.taken()[id] {
			once.Do(func() { close(slow.answer) })
		}
		return slow.lists.Load() > 10
	})
	if task, err := r.GetTask(t.Context(), id); err != nil || task.Done != 30 || q.changed != 30 {
		t.Errorf("%d jobs were changed, and the task is %+v, %v", q.changed, task, err)
	}
}

// awayTasks stores nothing while it is unavailable.
type awayTasks struct {
	*tasks
	away atomic.Bool
	ends atomic.Int32 // calls that it refused
}

func (s *awayTasks) UpdateTask(ctx context.Context, t Task) error {
	if !s.away.Load() {
		return s.tasks.UpdateTask(ctx, t)
	}
	if !t.Open() {
		s.ends.Add(1)
	}
	return errors.New("the database is away")
}

// TestATaskThatEndsWhileTheStoreIsAwayIsDone once the store is back, and leaves no file.
func TestATaskThatEndsWhileTheStoreIsAwayIsDone(t *testing.T) {
	q := stock(store.Dead, 30, time.Now())
	r := newRunner(t, q)
	store := &awayTasks{tasks: r.Storage.(*tasks)}
	r.Storage, r.wait = store, time.Millisecond
	q.after = func() { store.away.Store(true) }
	id, err := r.Start(t.Context(), "me", redrive(Params{}))
	if err != nil {
		t.Fatal(err)
	}
	task := runUntil(t, r, func(task *Task) bool {
		if store.ends.Load() > 0 {
			store.away.Store(false)
		}
		return hasEnded(task) && !r.taken()[id]
	})
	if files, err := os.ReadDir(r.Dir); task.State != Done || task.Done != 30 || len(files) != 0 || err != nil {
		t.Errorf("the task is %+v, and its folder has %v, %v", task, files, err)
	}
}
