package importer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// oldSystem has jobs in memory; a claim has two.
type oldSystem struct {
	topics  []registry.Topic
	waiting []Job
	claimed map[string]Job // by id
	left    []Job
	locked  bool
	claims  int
	err     map[string]error // errors by method
	claim   func()           // called before each claim
	prepare func(*Report) error
}

func (o *oldSystem) Lock(context.Context) error {
	o.locked = true
	return o.err["Lock"]
}

func (o *oldSystem) Prepare(_ context.Context, _ *Options, r *Report) error {
	if o.prepare == nil {
		return nil
	}
	return o.prepare(r)
}

func (o *oldSystem) Topics(context.Context) ([]registry.Topic, error) {
	return o.topics, o.err["Topics"]
}

func (o *oldSystem) Waiting(context.Context) (int, error) { return len(o.waiting), o.err["Waiting"] }

func (o *oldSystem) Left(context.Context) ([]Job, error) { return o.left, o.err["Left"] }

func (o *oldSystem) Claim(context.Context, int) ([]Job, error) {
	if o.claim != nil {
		o.claim()
	}
	if err := o.err["Claim"]; err != nil {
		return nil, err
	}
	n := min(2, len(o.waiting))
	jobs := slices.Clone(o.waiting[:n])
	o.waiting = o.waiting[n:]
	o.claims++
	for i := range jobs {
		jobs[i].Push.Via = fmt.Sprint("import old ", o.claims)
		o.claimed[jobs[i].Push.ID] = jobs[i]
	}
	return jobs, nil
}

func (o *oldSystem) Drop(_ context.Context, jobs []Job) error {
	for _, job := range jobs {
		if job.Push.Via != jobs[0].Push.Via {
			return errors.New("jobs of two claims are dropped at once")
		}
		delete(o.claimed, job.Push.ID)
	}
	return o.err["Drop"]
}

// newQueue stores jobs in memory.
type newQueue struct {
	stored map[string]store.Job // by id
	errs   map[string]error     // error of the push of an id
	vias   map[string]string    // the claim by which an id was imported
	pushed []string
	last   store.Push
}

func (q *newQueue) PushBatch(ctx context.Context, pushes []store.Push) (results []store.Result) {
	for _, p := range pushes {
		q.last = p
		was, duplicate := q.stored[p.ID]
		r := store.Result{Err: q.errs[p.ID], Duplicate: duplicate}
		switch {
		case r.Err != nil:
		case duplicate && p.OnDuplicate == store.Keep:
			r.Job = was
		default:
			q.stored[p.ID] = store.Job{Topic: p.Topic, ID: p.ID, Body: p.Body, CreatedAt: time.Now()}
			q.vias[p.ID] = p.Via
			q.pushed = append(q.pushed, p.ID)
		}
		results = append(results, r)
	}
	return results
}

func (q *newQueue) Find(_ context.Context, refs []store.Ref) (jobs []*store.Job, err error) {
	for _, ref := range refs {
		job, ok := q.stored[ref.ID]
		if !ok {
			jobs = append(jobs, nil)
			continue
		}
		jobs = append(jobs, &job)
	}
	return jobs, q.errs["Find"]
}

// newRegistry keeps topics in memory.
type newRegistry struct {
	topics []*registry.Topic
	err    error
}

func (r *newRegistry) Snapshot() *registry.Snapshot {
	return &registry.Snapshot{Topics: registry.NewTopics(r.topics...)}
}

func (r *newRegistry) PutTopic(_ context.Context, _ string, t registry.Topic, _ ...registry.Condition) (bool, error) {
	if r.err == nil {
		r.topics = append(r.topics, &t)
	}
	return true, r.err
}

func (r *newRegistry) EditSetting(context.Context, string, string, any, func() error) error {
	return r.err
}

// move is an import of jobs with these ids.
type move struct {
	Options
	old      *oldSystem
	jobs     *newQueue
	registry *newRegistry
	log      strings.Builder
	reports  []Report
}

func newMove(t *testing.T, ids ...string) *move {
	t.Parallel()
	topic := registry.NewTopic("orders")
	topic.CallbackURL = "http://127.0.0.1/"
	m := &move{
		old:      &oldSystem{topics: []registry.Topic{topic}, claimed: map[string]Job{}, err: map[string]error{}},
		jobs:     &newQueue{stored: map[string]store.Job{}, errs: map[string]error{}, vias: map[string]string{}},
		registry: &newRegistry{},
	}
	for _, id := range ids {
		m.old.waiting = append(m.old.waiting, oldJob(id))
	}
	m.Options = Options{
		Source: m.old, Registry: m.registry, Jobs: m.jobs, Journal: t.TempDir(),
		Logger:   slog.New(slog.NewTextHandler(&m.log, nil)),
		Progress: func(r Report) { m.reports = append(m.reports, r) },
	}
	return m
}

func oldJob(id string) Job {
	return Job{Push: store.Push{Topic: "orders", ID: id, Body: []byte(id)}, Added: time.Now().Add(-time.Hour)}
}

func (m *move) run(t *testing.T, want Report) {
	t.Helper()
	got, err := Run(t.Context(), m.Options)
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}
