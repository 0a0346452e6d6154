package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

var errAway = errors.New("no answer")

// fake is a shard with one bucket in a bubble of fake time. Tests change its fields with set while a dispatcher uses
// it.
type fake struct {
	name string
	wake chan store.Wakeup

	mu       sync.Mutex
	ready    []*store.Job
	pushed   int
	passed   int          // reserves that skip entries of deleted jobs before one returns jobs
	lost     []*store.Job // reserved under token, in an answer that was lost
	token    string
	reserves []store.Reserve
	reserved []time.Time // when
	looks    int
	noted    bool                 // the last reserve found too few jobs, and no job was pushed since
	settled  []store.End          // without those that extend
	extended map[string]int       // by job
	leases   map[string]fakeLease // by job
	jobs     map[string]*store.Job
	window   time.Duration // the start window that deletions wait for

	reserveErr error // the request is executed only if swallow is set
	swallow    bool
	took       time.Duration // of a reserve
	slow       time.Duration // of every other request
	ttr        time.Duration // of the topics, as Redis knows it
	requeue    bool          // jobs released without a delay are ready again
	settleErr  error
	extendErr  error
	gone       bool // all leases have ended
	down       bool // every request fails, after hangs
	hangs      time.Duration
}

// fakeLease is what the last request for a lease promised.
type fakeLease struct{ start, ends time.Time } // until when the call may start, and when the lease ends

func newFake(name string) *fake {
	return &fake{
		name: name, wake: make(chan store.Wakeup), extended: map[string]int{},
		jobs: map[string]*store.Job{}, leases: map[string]fakeLease{},
		window: store.StartWindow, ttr: 10 * time.Second,
	}
}

// away returns the error of a request to a shard that is down.
func (f *fake) away() error {
	f.mu.Lock()
	down, hangs := f.down, f.hangs
	f.mu.Unlock()
	if !down {
		return nil
	}
	time.Sleep(hangs)
	return errAway
}

// WidenStart stores the window like the real one.
func (f *fake) WidenStart(_ context.Context, took time.Duration) (time.Duration, error) {
	f.mu.Lock()
	f.window = max(f.window, 2*took)
	window, slow := f.window, f.slow
	f.mu.Unlock()
	time.Sleep(slow)
	return window, nil
}

func (f *fake) Name() string { return f.name }

func (f *fake) Number() int { return 0 }

func (f *fake) Wakeups(context.Context) <-chan store.Wakeup { return f.wake }

func (f *fake) Note(context.Context, observe.Notes) error { return nil }

func (f *fake) NothingReady(context.Context) (bool, error) {
	if err := f.away(); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	return f.noted && len(f.ready) == 0 && f.passed == 0, nil
}

func (f *fake) Reserve(_ context.Context, r store.Reserve) (store.Reserved, error) {
	if err := f.away(); err != nil {
		return store.Reserved{}, err
	}
	got, took, err := f.reserve(r)
	time.Sleep(took)
	return got, err
}

func (f *fake) reserve(r store.Reserve) (store.Reserved, time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reserves, f.reserved = append(f.reserves, r), append(f.reserved, time.Now())
	got := store.Reserved{Now: time.Now()}
	switch {
	case f.reserveErr != nil && !f.swallow:
		return got, f.took, f.reserveErr
	case r.Again && r.Token == f.token:
		got.Jobs, f.lost = f.lost, nil
	case f.passed > 0:
		f.passed--
		got.More = true
	default:
		got.Jobs = f.take(r)
	}
	f.token, f.noted = r.Token, len(got.Jobs) < r.Max
	if f.reserveErr != nil {
		f.lost = append(f.lost, got.Jobs...)
		return store.Reserved{}, f.took, f.reserveErr
	}
	for _, l := range got.Jobs {
		f.lend(l, min(f.ttr, r.LeaseCap)+r.Slack+store.LeaseGrace)
	}
	return got, f.took, nil
}

// lend leases a job from now on.
func (f *fake) lend(l *store.Job, d time.Duration) {
	now := time.Now()
	l.LeaseUntil = now.Add(d)
	f.leases[l.ID] = fakeLease{now.Add(f.window), l.LeaseUntil}
}

func (f *fake) lent(id string) fakeLease {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leases[id]
}

// take respects the limit of each topic, as the script does.
func (f *fake) take(r store.Reserve) (jobs []*store.Job) {
	has := map[string]int{}
	var left []*store.Job
	for _, l := range f.ready {
		most, ok := r.Busy[l.Topic]
		if !ok {
			most = r.TopicMax
		}
		if len(jobs) == r.Max || has[l.Topic] == most {
			left = append(left, l)
			continue
		}
		has[l.Topic]++
		jobs = append(jobs, l)
	}
	f.ready = left
	return jobs
}

// End settles the list, or extends its leases.
func (f *fake) End(_ context.Context, list []store.End) ([]store.Ended, error) {
	if err := f.away(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.answer()
	if list[0].Verb == store.Extend {
		return f.extend(list)
	}
	if f.settleErr != nil {
		return nil, f.settleErr
	}
	f.settled = append(f.settled, list...)
	for _, e := range list {
		if e.Verb == store.Release && e.Delay == 0 && f.requeue {
			f.ready = append(f.ready, f.jobs[e.Lease.ID])
		}
	}
	return answers(len(list), !f.gone), nil
}

func (f *fake) extend(list []store.End) ([]store.Ended, error) {
	if f.extendErr != nil {
		return nil, f.extendErr
	}
	held := answers(len(list), !f.gone)
	for i, e := range list {
		id := e.Lease.ID
		f.extended[id]++
		if time.Now().After(f.leases[id].ends) {
			held[i].Err = store.ErrLease
		}
		if held[i].Err == nil {
			f.lend(f.jobs[id], e.Delay)
		}
	}
	return held, nil
}

// answer ends a request that has locked mu.
func (f *fake) answer() {
	slow := f.slow
	f.mu.Unlock()
	time.Sleep(slow)
}

func answers(n int, held bool) []store.Ended {
	list := make([]store.Ended, n)
	for i := range list {
		if !held {
			list[i].Err = store.ErrLease
		}
	}
	return list
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// push makes n jobs ready.
func (f *fake) push(topic string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.pushed++
		id := fmt.Sprint(f.name, f.pushed)
		f.jobs[id] = &store.Job{Topic: topic, ID: id, DueAt: time.Now(),
			Lease: &store.Lease{Ref: store.Ref{Topic: topic, ID: id}, Attempt: 1}}
		f.ready = append(f.ready, f.jobs[id])
	}
}

// verbs counts what was settled by verb.
func (f *fake) verbs() map[store.Verb]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := map[store.Verb]int{}
	for _, st := range f.settled {
		count[st.Verb]++
	}
	return count
}

// stage is a dispatcher on fake shards, whose calls the test ends.
type stage struct {
	t       *testing.T
	d       *Dispatcher
	shards  []Bucket // in use
	all     []Bucket
	changed chan struct{}
	answer  chan struct{} // closed: every call ends; nil: calls end at once
	judge   bool          // calls that do not end evaluate a retry_if
	topics  map[string]*registry.Topic
	stop    context.CancelFunc
	done    chan error

	mu       sync.Mutex
	called   map[string]int
	inFlight int
	short    bool // calls get no descriptor
	dial     time.Duration
	noted    func(r *callback.Request) // of each call, when it begins
}

// Do checks that each call starts while a deletion waits for it, and ends before its lease.
func (s *stage) Do(ctx context.Context, _ *callback.Endpoint, r *callback.Request) callback.Outcome {
	if s.noted != nil {
		s.noted(r)
	}
	time.Sleep(s.dial)
	if err := r.Begin(); err != nil {
		return callback.Outcome{Class: callback.Failure, Reason: "canceled", Err: err.Error()}
	}
	lent := s.shard(r.ID).lent
	if l := lent(r.ID); time.Now().After(l.start) {
		s.t.Errorf("job %s was called %s after its start window", r.ID, time.Since(l.start))
	}
	defer func() {
		if l := lent(r.ID); time.Now().After(l.ends) {
			s.t.Errorf("job %s was called until %s after the end of its lease", r.ID, time.Since(l.ends))
		}
	}()
	s.mu.Lock()
	s.called[r.ID]++
	s.inFlight++
	short := s.short
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.inFlight--; s.mu.Unlock() }()
	if short {
		return callback.Outcome{Class: callback.Short, Reason: "shortage", Err: "no descriptor"}
	}
	if s.answer == nil {
		return callback.Outcome{Class: callback.Success, Status: 200, Reason: "ok"}
	}
	if s.judge {
		r.Judging()
	}
	select {
	case <-s.answer:
		return callback.Outcome{Class: callback.Success, Status: 200, Reason: "ok"}
	case <-ctx.Done():
		return callback.Outcome{Class: callback.Failure, Reason: "canceled", Err: "cut off"}
	}
}

// shard returns the shard that has lent a job.
func (s *stage) shard(id string) *fake {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shard := range s.all {
		if f := shard.(*fake); !f.lent(id).ends.IsZero() {
			return f
		}
	}
	return nil
}

func (s *stage) calls() (ids, most, inFlight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.called {
		most = max(most, n)
	}
	return len(s.called), most, s.inFlight
}

// setting is what a test can configure before the dispatcher starts.
type setting struct {
	concurrency int
	hang        bool // calls end when the test closes answer
	judge       bool // until then, their retry_if is being evaluated
	ttr         time.Duration
	shards      []*fake
	deleted     func(ctx context.Context, topic string) (bool, error)
}

func play(t *testing.T, set setting, test func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, called: map[string]int{}, changed: make(chan struct{}, 1),
			topics: map[string]*registry.Topic{},
			done:   make(chan error, 1), judge: set.judge}
		for _, f := range set.shards {
			f.wake = make(chan store.Wakeup) // of this bubble
			s.shards = append(s.shards, f)
			if set.ttr > 0 {
				f.ttr = set.ttr
			}
		}
		s.all = s.shards
		if set.hang {
			s.answer = make(chan struct{})
		}
		for c := 'a'; c <= 'z'; c++ {
			x := registry.NewTopic(string(c))
			x.CallbackURL = "http://endpoint.test/"
			if set.judge {
				x.RetryIf = "status != 200"
			}
			if set.ttr > 0 {
				x.TTR = registry.Duration(set.ttr)
			}
			s.topics[x.Name] = &x
		}
		snap := &registry.Snapshot{Topics: registry.NewTopics(slices.Collect(maps.Values(s.topics))...)}
		s.d = New(Options{
			Buckets: func() []Bucket { s.mu.Lock(); defer s.mu.Unlock(); return s.shards },
			Changed: s.changed, Topics: func() *registry.Snapshot { return snap }, Caller: s,
			Deleted: set.deleted, Concurrency: set.concurrency, Pattern: "0120010210", ShutdownTimeout: 10 * time.Second,
		})
		var ctx context.Context
		ctx, s.stop = context.WithCancel(t.Context())
		go func() { s.done <- s.d.Run(ctx) }()
		synctest.Wait()
		defer func() {
			s.stop()
			if err := <-s.done; err != nil {
				t.Error(err)
			}
		}()
		test(t, s)
	})
}

func pass(d time.Duration) {
	time.Sleep(d) // of the bubble: waiting takes no real time
	synctest.Wait()
}
