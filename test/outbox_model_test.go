package test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	timers "github.com/wakecall/wakecall/client/outbox"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/wait"
)

// far is when the jobs of the model are due: none is called during a test.
const far = 24 * time.Hour

// The topics of a workload. Jobs of callsTopic are due at once, and remembered longer than any outage.
const (
	firstTopic  = "shop.first"
	secondTopic = "shop.second"
	callsTopic  = "shop.calls"
)

// jobModel is what a job must be at the end.
type jobModel struct {
	body           string
	priority       string
	dueFrom, dueTo time.Time // a delay counts from the row's insert, by the database's clock
}

// order is an order with its timers: two in its group, one without.
type order struct {
	id      int
	mu      sync.Mutex // as the row's lock, it lets one transaction at a time see the model
	version int        // of its row
	jobs    map[timers.Job]jobModel
	closed  bool
}

func (o *order) group() string { return fmt.Sprint("order-", o.id) }

func (o *order) all() []timers.Job {
	return []timers.Job{
		{Topic: firstTopic, ID: o.group() + "-remind", Group: o.group()},
		{Topic: secondTopic, ID: o.group() + "-close", Group: o.group()},
		{Topic: firstTopic, ID: o.group() + "-review"},
	}
}

// step is one row: how it is inserted, and what it does to the model.
type step struct {
	insert func(tx timers.Tx) error
	apply  func(o *order, began, ended time.Time)
}

// workload runs transactions that write the outbox, and knows what Wakecall must have at the end.
type workload struct {
	db     *shopDB
	table  timers.Table
	orders []*order
	bodies atomic.Int64
	stop   chan struct{}
	wg     sync.WaitGroup

	mu      sync.Mutex
	calls   map[string]bool // bodies of the jobs that must be called once
	never   map[string]bool // of transactions that were rolled back
	rows    int
	unknown int // transactions whose commit had no answer
	failed  error
}

func newWorkload(t *testing.T, db *shopDB, orders int) *workload {
	t.Helper()
	w := &workload{
		db: db, table: timers.Table{Dialect: db.kind}, stop: make(chan struct{}),
		calls: map[string]bool{}, never: map[string]bool{},
	}
	for n := range orders {
		w.orders = append(w.orders, &order{id: n, jobs: map[timers.Job]jobModel{}})
		db.run(t, fmt.Sprintf("INSERT INTO orders (id, state) VALUES (%d, 'open')", n))
	}
	return w
}

// start runs writers, each of which commits a transaction every few milliseconds, until end.
func (w *workload) start(t *testing.T, writers int, every time.Duration) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed of the workload: %d", seed)
	for n := range writers {
		w.wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				select {
				case <-w.stop:
					return
				case <-tick.C:
				}
				if err := w.transact(random); err != nil {
					w.mu.Lock()
					w.failed = errors.Join(w.failed, err)
					w.mu.Unlock()
					return
				}
			}
		})
	}
	t.Cleanup(func() { w.end(t) })
}

// end ends the writers.
func (w *workload) end(t *testing.T) {
	t.Helper()
	select {
	case <-w.stop:
		return
	default:
	}
	close(w.stop)
	w.wg.Wait()
	if w.failed != nil {
		t.Error(w.failed)
	}
}

// transact runs one transaction on a random order, and applies it to the model if it was committed.
func (w *workload) transact(random *rand.Rand) error {
	o := w.orders[random.IntN(len(w.orders))]
	o.mu.Lock()
	defer o.mu.Unlock()
	var steps []step
	for range 1 + random.IntN(3) {
		steps = append(steps, w.randomStep(random, o))
	}
	call := w.body("call")
	steps = append(steps, w.call(call, random.IntN(2) == 0))
	began := time.Now()
	committed, err := w.commit(o, steps, random.IntN(10) == 0)
	if err != nil {
		return err
	}
	ended := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !committed {
		w.never[call] = true
		return nil
	}
	w.rows += len(steps)
	w.calls[call] = true
	o.version++
	for _, s := range steps {
		s.apply(o, began, ended)
	}
	return nil
}

// commit reports whether the steps were committed. When that is not known, the order's version tells.
func (w *workload) commit(o *order, steps []step, rollBack bool) (committed bool, err error) {
	limit, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	err = w.attempt(limit, o, steps, rollBack)
	if err == nil || rollBack {
		return !rollBack, nil
	}
	if w.db.server == nil {
		return false, fmt.Errorf("transaction of %s: %w", o.group(), err)
	}
	w.mu.Lock()
	w.unknown++
	w.mu.Unlock()
	why := err
	return committed, wait.Until(limit, 50*time.Millisecond, func() error {
		version, err := w.version(limit, o)
		committed = version == o.version+1
		if err == nil && version != o.version && !committed {
			return fmt.Errorf("%s has version %d after %d (%w)", o.group(), version, o.version, why)
		}
		return err
	})
}

func (w *workload) attempt(limit context.Context, o *order, steps []step, rollBack bool) error {
	tx, err := w.db.BeginTx(limit, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(limit, "UPDATE orders SET version = version + 1 WHERE id = "+w.db.mark(1), o.id)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if err := s.insert(tx); err != nil {
			return err
		}
	}
	if rollBack {
		return tx.Rollback()
	}
	return tx.Commit()
}

// version reads an order's version when no transaction that was interrupted holds its row any more.
func (w *workload) version(limit context.Context, o *order) (version int, err error) {
	tx, err := w.db.BeginTx(limit, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	query := "SELECT version FROM orders WHERE id = " + w.db.mark(1) + " FOR UPDATE"
	err = tx.QueryRowContext(limit, query, o.id).Scan(&version)
	return version, err
}

func (w *workload) body(kind string) string { return fmt.Sprintf(`{"%s":%d}`, kind, w.bodies.Add(1)) }

// call pushes a job that is due at once, with an id or without.
func (w *workload) call(body string, named bool) step {
	p := client.Push{Topic: callsTopic, Body: json.RawMessage(body), Delay: client.After(0)}
	if named {
		p.ID = body
	}
	return step{
		func(tx timers.Tx) error { return w.table.Push(ctx, tx, p) },
		func(*order, time.Time, time.Time) {},
	}
}

func (w *workload) randomStep(random *rand.Rand, o *order) step {
	job := o.all()[random.IntN(len(o.all()))]
	switch n := random.IntN(100); {
	case n < 50:
		return w.push(random, job)
	case n < 80:
		return w.change(random, job)
	case n < 92:
		return step{
			func(tx timers.Tx) error { return w.table.Delete(ctx, tx, job) },
			func(o *order, _, _ time.Time) { delete(o.jobs, job) },
		}
	}
	closeFor := time.Duration(0)
	if random.IntN(50) == 0 {
		closeFor = far
	}
	return step{
		func(tx timers.Tx) error { return w.table.CancelGroup(ctx, tx, o.group(), closeFor) },
		func(o *order, _, _ time.Time) {
			maps.DeleteFunc(o.jobs, func(j timers.Job, _ jobModel) bool { return j.Group != "" })
			o.closed = o.closed || closeFor > 0
		},
	}
}

// due is a due time: an instant or a delay.
type due struct {
	at    *time.Time
	delay *time.Duration
}

func randomDue(random *rand.Rand) due {
	after := far + time.Duration(random.IntN(1e6))*time.Millisecond
	if random.IntN(2) == 0 {
		return due{delay: &after}
	}
	at := time.Now().Add(after).Truncate(time.Millisecond)
	return due{at: &at}
}

func (d due) set(m *jobModel, began, ended time.Time) {
	if d.at != nil {
		m.dueFrom, m.dueTo = *d.at, *d.at
		return
	}
	m.dueFrom, m.dueTo = began.Add(*d.delay-2*time.Millisecond), ended.Add(*d.delay)
}

func (w *workload) push(random *rand.Rand, job timers.Job) step {
	d := randomDue(random)
	p := client.Push{
		Topic: job.Topic, ID: job.ID, Group: job.Group, Body: json.RawMessage(w.body("push")), Delay: d.delay,
		Priority:    pick(random, "", client.High, client.Low),
		OnDuplicate: pick(random, "", client.Keep, client.Replace, client.Replace),
	}
	if d.at != nil {
		p.DueAt = *d.at
	}
	return step{
		func(tx timers.Tx) error { return w.table.Push(ctx, tx, p) },
		func(o *order, began, ended time.Time) {
			_, exists := o.jobs[job]
			if o.closed && job.Group != "" || exists && p.OnDuplicate != client.Replace {
				return
			}
			m := jobModel{body: string(p.Body), priority: cmp.Or(p.Priority, client.Normal)}
			d.set(&m, began, ended)
			o.jobs[job] = m
		},
	}
}

func (w *workload) change(random *rand.Rand, job timers.Job) step {
	d := randomDue(random)
	ch := client.Change{Delay: d.delay, DueAt: d.at, Priority: pick(random, "", client.High)}
	if random.IntN(2) == 0 {
		ch.Body = json.RawMessage(w.body("change"))
	}
	return step{
		func(tx timers.Tx) error { return w.table.Change(ctx, tx, job, ch) },
		func(o *order, began, ended time.Time) {
			m, exists := o.jobs[job]
			if !exists {
				return
			}
			d.set(&m, began, ended)
			m.priority = cmp.Or(ch.Priority, m.priority)
			if ch.Body != nil {
				m.body = string(ch.Body)
			}
			o.jobs[job] = m
		},
	}
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// topics registers the topics of a workload.
func (i *installation) shopTopics(t *testing.T) {
	t.Helper()
	for _, topic := range []string{firstTopic, secondTopic, callsTopic} {
		i.put(t, topic, nil, M{"remember": "24h"})
	}
}

// verdict compares what Wakecall has with the model, when all rows were carried.
func (w *workload) verdict(t *testing.T, i *installation) {
	t.Helper()
	w.end(t)
	w.db.waitEmpty(t)
	harness.Eventually(t, soon, "the jobs to be called", func() error { return i.Drained(ctx, callsTopic) })
	jobs := 0
	for _, o := range w.orders {
		for _, job := range o.all() {
			want, exists := o.jobs[job]
			if exists {
				jobs++
			}
			if err := i.isLike(job, want, exists); err != nil {
				t.Errorf("%s/%s of version %d: %v", job.Topic, job.ID, o.version, err)
			}
		}
	}
	w.calledOnce(t, i)
	t.Logf("%d rows; at the end %d jobs; %d called; %d transactions rolled back, %d interrupted", w.rows, jobs,
		len(w.calls), len(w.never), w.unknown)
	if jobs == 0 || len(w.calls) == 0 {
		t.Error("there was nothing to judge")
	}
}

// isLike returns an error unless a job is like its model.
func (i *installation) isLike(job timers.Job, want jobModel, exists bool) error {
	answer := i.Do(ctx, http.MethodGet, harness.JobPath(job.Topic, job.ID), nil)
	if !exists {
		if answer.Status != http.StatusNotFound {
			return fmt.Errorf("it must not exist; answered %s", answer)
		}
		return nil
	}
	var got harness.Job
	if err := answer.JSON(&got); err != nil || answer.Status != http.StatusOK {
		return fmt.Errorf("lost: answered %s", answer)
	}
	inTime := !got.DueAt.Before(want.dueFrom.Truncate(time.Millisecond)) &&
		!got.DueAt.After(want.dueTo.Add(time.Millisecond))
	if string(got.Body) != want.body || got.Priority != want.priority || got.State != client.Delayed ||
		got.Group != job.Group || !inTime {
		return fmt.Errorf("it is %s, want %s, %s, due %s to %s", answer, want.body, want.priority, want.dueFrom,
			want.dueTo)
	}
	return nil
}

// calledOnce checks that each job that was due at once was called once, and no other.
func (w *workload) calledOnce(t *testing.T, i *installation) {
	t.Helper()
	times, calls := map[string]int{}, map[string]string{}
	for _, c := range i.endpoint.Calls(callsTopic) {
		times[string(c.Body)]++
		calls[string(c.Body)] += fmt.Sprintf(" %s attempt %d at %s", c.ID, c.Attempt, c.At.Format("05.000"))
	}
	var wrong []string
	for body := range w.calls {
		if times[body] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s was called %d times:%s", body, times[body], calls[body]))
		}
		delete(times, body)
	}
	for body := range times {
		wrong = append(wrong, fmt.Sprintf("%s was called, but not committed (rolled back: %v)", body, w.never[body]))
	}
	slices.Sort(wrong)
	if len(wrong) > 0 {
		t.Errorf("%d jobs: %v", len(wrong), wrong[:min(len(wrong), 10)])
	}
}

// waitCarried waits until n more jobs were called than now: the relays work.
func (w *workload) waitCarried(t *testing.T, i *installation, n int) {
	t.Helper()
	before := len(i.endpoint.Calls(callsTopic))
	harness.Eventually(t, soon, "the relays to go on", func() error {
		if now := len(i.endpoint.Calls(callsTopic)); now < before+n {
			rows, err := w.db.rows()
			return fmt.Errorf("%d more calls, %d rows wait (%v)", now-before, rows, err)
		}
		return nil
	})
}
