package store

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/internal/batch"
	"github.com/wakecall/wakecall/internal/pause"
)

// Order says from which of several topics a worker gets jobs.
type Order uint8

// The orders.
const (
	Fair    Order = iota // 5:3:2 over the priorities, round robin over the topics
	Listed               // from the first topic that has ready jobs, then from the next
	Ordered              // by Job.Order, whatever the topic; jobs without one as Listed
)

var orderNames = [...]string{Fair: "fair", Listed: "listed", Ordered: "ordered"}

// TakeLimit is the most jobs of one TakeRequest.
const TakeLimit = 100

// TakeRequest asks for ready jobs of pull topics.
type TakeRequest struct {
	Topics []string
	Order  Order
	Max    int           // 1 to TakeLimit
	TTR    time.Duration // of the leases; 0: the job's, or its topic's
	// Alive is called just before jobs are taken; if it returns false the worker has left and no job is taken. nil:
	// always true.
	Alive func() bool
}

// Taken is the answer of one bucket.
type Taken struct {
	Jobs  [][]Job       // for each request
	More  []string      // awaited topics that may have more now; PullWakeups names the others when they have
	Retry time.Duration // when to ask again about a topic whose rate limit is used up; 0: none is
}

var errLeft = errors.New("the worker has left")

// awaitFor is how long a bucket remembers that workers wait for a topic. Callers that go on waiting take again before
// that.
const awaitFor = time.Minute

// takePattern is 5:3:2.
const takePattern = "0102010201"

// takeCall is the request of one goroutine to a bucket.
type takeCall struct {
	requests []TakeRequest
	await    []string
	groups   []*takeGroup // for each request; nil: its worker has left
}

// repeated is what a topic costs that the call has already: the script only reads its name again.
const repeated = 0.125

// topics adds the topics that a call names to seen, and returns how many the script checks for it.
func (c *takeCall) topics(seen map[string]bool) (n float64) {
	for i := range c.requests {
		for _, topic := range c.requests[i].Topics {
			if seen[topic] {
				n += repeated
				continue
			}
			seen[topic] = true
			n++
		}
	}
	for _, topic := range c.await {
		if !seen[topic] {
			seen[topic] = true
			n++
		}
	}
	return n
}

func (c *takeCall) size() batch.Size {
	jobs := 1
	for i := range c.requests {
		jobs += c.requests[i].Max
	}
	return batch.Size{Jobs: jobs, Topics: c.topics}
}

func (b *Bucket) newTakes() *batch.Batcher[takeCall, Taken] {
	name := crand.Text()[:12]
	return batch.New(b.batchOptions(), func(slot int, calls []*batch.Request[takeCall, Taken]) {
		t := takeBatch{bucket: b, name: name + "/" + strconv.Itoa(slot), calls: calls}
		t.send()
	})
}

// Take takes ready jobs for workers. await names topics for which workers go on waiting: the
// bucket remembers those of which nothing can be taken now, and sends one wake-up when that changes. Jobs of a caller
// whose context ended meanwhile are released, and no attempt is counted.
func (b *Bucket) Take(ctx context.Context, requests []TakeRequest, await []string) (Taken, error) {
	if err := b.takesNone(); err != nil {
		return Taken{}, err
	}
	c := takeCall{requests: requests, await: await}
	taken, err := b.takes.Add(c, c.size()).Wait(ctx)
	if err != nil {
		return Taken{}, fmt.Errorf("take from shard %s: %w", b.shard.name, err)
	}
	return taken, nil
}

var errRecovering = errors.New("a lost answer is being recovered")

// takesNone returns why jobs cannot be taken now: the bucket is down, or a lost answer is still to be recovered,
// which the next call of its slot would replace.
func (b *Bucket) takesNone() error {
	switch {
	case b.lost.Load() > 0:
		return b.Unavailable("down", errRecovering)
	case b.reason() == ReasonComparing: // it waits for that
		return nil
	}
	return b.Unusable()
}

// takeBatch is one call of the take script, and its repetition after a lost answer: otherwise its jobs would count an
// attempt when their leases expire.
type takeBatch struct {
	bucket *Bucket
	name   string
	calls  []*batch.Request[takeCall, Taken]
	groups []*takeGroup
	args   []any
	head   []any // of the answer
}

// takeGroup holds successive requests with the same parameters. The script takes jobs for all of them at once; they are
// handed out in the order of the requests.
type takeGroup struct {
	TakeRequest // Max of all
	token       string
	jobs        []Job
}

func (b *takeBatch) send() {
	if err := b.bucket.takesNone(); err != nil {
		b.fail(err)
		return
	}
	token := crand.Text()
	b.encode(token)
	if len(b.groups) == 0 && len(b.args) == takeHead { // all callers have left
		b.fail(errLeft)
		return
	}
	err := b.call()
	if err == nil {
		b.deliver()
		return
	}
	if lost(err) {
		b.recoverBeside()
	}
	b.fail(err)
}

// recoverBeside recovers a lost answer without holding the slot. Until it is done, nothing is taken from the bucket, so
// at most one recovery for each slot is under way.
func (b *takeBatch) recoverBeside() {
	lost := &b.bucket.lost
	lost.Add(1)
	if !b.bucket.shard.Start(func() { defer lost.Add(-1); b.recover() }) {
		lost.Add(-1)
	}
}

// lost reports whether a call may have been carried out although it failed.
func lost(err error) bool {
	var un *UnavailableError
	return errors.As(err, &un) && (un.Reason == "connection" || un.Reason == "timeout")
}

const takeHead = 6 // arguments of take.lua before the awaited topics

// encode makes the arguments of the script, without callers that have left.
func (b *takeBatch) encode(token string) {
	var await []any
	noted := map[string]bool{}
	for _, c := range b.calls {
		c.Value.groups = make([]*takeGroup, len(c.Value.requests))
		for i := range c.Value.requests {
			if r := &c.Value.requests[i]; !c.Left() && (r.Alive == nil || r.Alive()) {
				c.Value.groups[i] = b.join(r)
			}
		}
		for _, topic := range c.Value.await {
			if !noted[topic] && !c.Left() {
				noted[topic] = true
				await = append(await, topic)
			}
		}
	}
	b.args = append([]any{b.name, token, "", takePattern, len(await), awaitFor.Milliseconds()}, await...)
	for _, g := range b.groups {
		ttr := ""
		if g.TTR > 0 {
			ttr = strconv.FormatInt(max(1, g.TTR.Milliseconds()), 10)
		}
		b.args = append(b.args, g.token, orderNames[g.Order], g.Max, ttr, len(g.Topics))
		b.args = append(b.args, Anys(g.Topics)...)
	}
}

// join adds a request to the last group if its parameters are the same, else to a new one.
func (b *takeBatch) join(r *TakeRequest) *takeGroup {
	if n := len(b.groups); n > 0 {
		g := b.groups[n-1]
		if g.Order == r.Order && g.TTR == r.TTR && slices.Equal(g.Topics, r.Topics) {
			g.Max += min(r.Max, TakeLimit)
			return g
		}
	}
	g := &takeGroup{TakeRequest: *r, token: NewToken()}
	g.Max = min(r.Max, TakeLimit)
	b.groups = append(b.groups, g)
	return g
}

const takenHead = 5 // length of the head of take.lua's answer

// call calls the script, and decodes the jobs of the groups.
func (b *takeBatch) call() error {
	reply, err := b.bucket.Call(context.WithoutCancel(b.bucket.shard.ctx), takeScript, b.args...)
	if err != nil {
		return err
	}
	v, ok := reply.Value.([]any)
	if !ok || len(v) < takenHead || (len(v)-takenHead)%reservedJob != 0 {
		return fmt.Errorf("take from shard %s: %w", b.bucket.shard.name, ErrReply)
	}
	got := Values(v[4])
	if len(got) != len(b.groups) {
		return fmt.Errorf("take from shard %s: %w", b.bucket.shard.name, ErrReply)
	}
	b.head, v = v[:takenHead], v[takenHead:]
	for i, g := range b.groups {
		n := min(int(Integer(got[i])), len(v)/reservedJob)
		g.jobs = b.read(v[:n*reservedJob], g.token)
		v = v[n*reservedJob:]
	}
	return nil
}

// read decodes the jobs of one group.
func (b *takeBatch) read(v []any, token string) []Job {
	now, jobs := micros(b.head[0]), make([]Job, 0, len(v)/reservedJob)
	for ; len(v) > 0; v = v[reservedJob:] {
		if l := b.bucket.leased(v[:reservedJob], token, now); l != nil {
			jobs = append(jobs, *l)
		}
	}
	return jobs
}

func (b *takeBatch) fail(err error) {
	for _, c := range b.calls {
		c.Refuse(err)
	}
}

// deliver gives every caller its jobs, and releases those of callers that have left.
func (b *takeBatch) deliver() {
	var retry time.Duration
	if at := Integer(b.head[2]); at > 0 {
		retry = Millis(at).Sub(micros(b.head[0]))
	}
	var left []Job
	for _, c := range b.calls {
		t := Taken{Jobs: make([][]Job, len(c.Value.requests)), Retry: retry}
		for i, g := range c.Value.groups {
			if g != nil {
				n := min(c.Value.requests[i].Max, TakeLimit, len(g.jobs))
				t.Jobs[i], g.jobs = g.jobs[:n:n], g.jobs[n:]
			}
		}
		for _, topic := range c.Value.await {
			if slices.Contains(Values(b.head[3]), any(topic)) {
				t.More = append(t.More, topic)
			}
		}
		if !c.Answer(t, nil) {
			left = append(left, slices.Concat(t.Jobs...)...)
		}
	}
	b.bucket.Release(left)
}

// recover repeats the call until it gets the lost answer, and releases its jobs: their callers have got the error. When
// the script itself fails, it would fail again and again: the leases expire.
func (b *takeBatch) recover() {
	b.args[2] = "1"
	if err := b.bucket.shard.persist(b.call); err != nil {
		b.bucket.shard.log.Error("the jobs of a lost answer cannot be released; their leases expire", "error", err)
		return
	}
	for _, g := range b.groups {
		b.bucket.release(g.jobs)
	}
}

// persist calls try until its error is not that the bucket is unavailable, or the shard is closed.
func (s *Shard) persist(try func() error) error {
	for backoff := 50 * time.Millisecond; ; backoff = min(2*backoff, 2*time.Second) {
		err := try()
		if _, away := errors.AsType[*UnavailableError](err); !away || !pause.For(s.ctx, backoff) {
			return err
		}
	}
}

// Release releases jobs that reached no worker, in the background.
func (b *Bucket) Release(jobs []Job) {
	if len(jobs) > 0 {
		b.shard.Start(func() { b.release(jobs) })
	}
}

// release releases jobs that reached no worker. While the bucket does not answer, it tries again: an expired lease
// would count as an attempt.
func (b *Bucket) release(jobs []Job) {
	list := Released(jobs)
	err := b.shard.persist(func() (away error) {
		var left []End
		for i, r := range b.EndTogether(b.shard.ctx, list) {
			if err := UnavailableOnly(r.Err); err != nil {
				left, away = append(left, list[i]), err
			} else if r.Err != nil && !errors.Is(r.Err, ErrLease) {
				b.shard.log.Warn("a job that reached no worker cannot be released; its lease expires", "error", r.Err)
			}
		}
		list = left
		return away
	})
	if err != nil {
		b.shard.log.Warn("jobs that reached no worker cannot be released; their leases expire", "error", err)
	}
}
