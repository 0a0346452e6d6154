package queue

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Order says which of several topics a worker gets jobs of.
type Order uint8

// The orders.
const (
	Fair   Order = iota // 5:3:2 over the priorities, and in turn over the topics
	Listed              // of the first topic that has ready jobs, then of the next
)

var orderNames = [...]string{Fair: "fair", Listed: "listed"}

// TakeLimit is the most jobs of one TakeRequest.
const TakeLimit = 100

// TakeRequest asks for ready jobs of pull topics.
type TakeRequest struct {
	Topics []string
	Order  Order
	Max    int           // 1 to TakeLimit
	TTR    time.Duration // of the leases; 0: the job's, or its topic's
	// Alive is asked just before jobs are taken: when it says that the worker has left, none are. nil: it has not.
	Alive func() bool
}

// Leased is a job that a worker has until LeaseUntil. Job.Attempts is the number made before this one.
type Leased struct {
	Job
	Lease   string        // ends it, see End
	For     time.Duration // how long the lease lasts, whatever a clock says
	Attempt int           // counted from 1
}

// Taken is the answer of one bucket.
type Taken struct {
	Jobs  [][]Leased    // of each request
	More  []string      // topics waited for that may have more now; the others tell through PullWakeups
	Retry time.Duration // after which a topic may have more whose rate leaves nothing now; 0: none
}

var (
	errOverloaded = errors.New("too many calls are waiting")
	errLeft       = errors.New("the worker has left")
)

// awaitFor is how long a bucket notes that a topic is waited for. Whoever waits takes again before that.
const awaitFor = time.Minute

// takePattern is 5:3:2.
const takePattern = "0102010201"

// takeCall is what one goroutine wants of a bucket.
type takeCall struct {
	requests []TakeRequest
	await    []string
	answered[Taken]
}

func (c *takeCall) jobs() (n int) {
	for i := range c.requests {
		n += c.requests[i].Max
	}
	return n + 1
}

// maxTaken is about how many jobs one call of the script takes at most.
const maxTaken = 256

func (s *Shard) newTakes(bucket int) *gatherer[*takeCall] {
	name := crand.Text()[:12]
	call := func(slot int, batch []*takeCall) {
		f := flight{s: s, bucket: bucket, name: name + "/" + strconv.Itoa(slot), calls: batch}
		f.fly()
	}
	refuse := func(c *takeCall, err error) { c.answer(Taken{}, err) }
	return newGatherer(s, maxTaken, (*takeCall).jobs, call, refuse)
}

// Take takes ready jobs of a bucket's topics for workers. await are topics for which workers go on waiting: the bucket
// notes those of which nothing can be taken now, and tells when that changes, once. Jobs of a caller whose context
// ended meanwhile are released, uncounted.
func (s *Shard) Take(ctx context.Context, bucket int, requests []TakeRequest, await []string) (Taken, error) {
	c := &takeCall{requests: requests, await: await, answered: newAnswered[Taken]()}
	s.nodes[bucket].takes.add(c)
	taken, err := c.answered.await(ctx)
	if err != nil {
		return Taken{}, fmt.Errorf("take from shard %s: %w", s.name, err)
	}
	return taken, nil
}

// flight is one call of the take script, and its repetition when the answer is lost: its jobs would otherwise count an
// attempt when their leases expire.
type flight struct {
	s      *Shard
	bucket int
	name   string
	calls  []*takeCall
	tokens []string // of the requests
	args   []any
}

func (f *flight) fly() {
	token := crand.Text()
	f.encode(token)
	if len(f.tokens) == 0 && len(f.args) == takeHead { // nobody is there any more
		f.fail(errLeft)
		return
	}
	answer, err := f.call()
	if err == nil {
		f.deliver(answer)
		return
	}
	f.fail(err)
	if lost(err) {
		f.recover()
	}
}

// lost reports whether a call may have been carried out although it failed.
func lost(err error) bool {
	var un *UnavailableError
	return errors.As(err, &un) && (un.Reason == "connection" || un.Reason == "timeout")
}

const takeHead = 6 // arguments of take.lua before the topics that are waited for

// encode makes the arguments of the script, without those who have left.
func (f *flight) encode(token string) {
	var await []string
	var requests []any
	for _, c := range f.calls {
		for i := range c.requests {
			r := &c.requests[i]
			if r.Alive != nil && !r.Alive() {
				r.Max = 0
				continue
			}
			key := newToken()
			f.tokens = append(f.tokens, key)
			ttr := ""
			if r.TTR > 0 {
				ttr = strconv.FormatInt(max(1, r.TTR.Milliseconds()), 10)
			}
			requests = append(requests, key, orderNames[r.Order], min(r.Max, TakeLimit), ttr, len(r.Topics))
			requests = append(requests, anys(r.Topics)...)
		}
		await = append(await, c.await...)
	}
	f.args = append([]any{f.name, token, "", takePattern, len(await), awaitFor.Milliseconds()}, anys(await)...)
	f.args = append(f.args, requests...)
}

// takenHead is the length of what the answer of take.lua begins with.
const takenHead = 5

// takenAnswer is the answer of take.lua.
type takenAnswer struct {
	now    time.Time
	retry  time.Duration
	more   []string
	counts []string
	jobs   []any
}

func (f *flight) call() (a takenAnswer, err error) {
	reply, err := f.s.run(context.WithoutCancel(f.s.ctx), f.bucket, "take", f.args...)
	if err != nil {
		return a, err
	}
	v, ok := reply.([]any)
	if !ok || len(v) < takenHead || (len(v)-takenHead)%reservedJob != 0 {
		return a, fmt.Errorf("take from shard %s: %w", f.s.name, errReply)
	}
	if newer, _ := v[2].(string); newer != "" {
		f.s.logNewer(newer)
	}
	more, _ := v[3].(string)
	counts, _ := v[4].(string)
	a = takenAnswer{now: millis(v[0]), more: strings.Fields(more), counts: strings.Fields(counts), jobs: v[takenHead:]}
	if at, _ := v[1].(int64); at > 0 {
		a.retry = millis(at).Sub(a.now)
	}
	if len(a.counts) != len(f.tokens) {
		return a, fmt.Errorf("take from shard %s: %w", f.s.name, errReply)
	}
	return a, nil
}

func (f *flight) fail(err error) {
	for _, c := range f.calls {
		c.answer(Taken{}, err)
	}
}

// deliver gives every caller its jobs, and releases those of callers who have left.
func (f *flight) deliver(a takenAnswer) {
	more := map[string]bool{}
	for _, topic := range a.more {
		more[topic] = true
	}
	var left []Leased
	for _, c := range f.calls {
		t := Taken{Jobs: make([][]Leased, len(c.requests)), Retry: a.retry}
		for i := range c.requests {
			if c.requests[i].Max > 0 {
				t.Jobs[i] = f.next(&a)
			}
		}
		for _, topic := range c.await {
			if more[topic] {
				t.More = append(t.More, topic)
			}
		}
		if c.answer(t, nil) {
			continue
		}
		for _, jobs := range t.Jobs {
			left = append(left, jobs...)
		}
	}
	f.s.giveBack(f.bucket, left)
}

// next reads the jobs of the next request.
func (f *flight) next(a *takenAnswer) []Leased {
	n, _ := strconv.Atoi(a.counts[0])
	token := f.tokens[0]
	a.counts, f.tokens = a.counts[1:], f.tokens[1:]
	jobs := make([]Leased, 0, n)
	for ; n > 0 && len(a.jobs) >= reservedJob; n-- {
		l, err := f.s.leased(a.jobs[:reservedJob], token)
		a.jobs = a.jobs[reservedJob:]
		if err != nil {
			f.s.log.Error("a reserved job cannot be read; it dies when enough leases have expired", "error", err)
			continue
		}
		t := ticket{f.s.name, l.Topic, l.ID, l.ref, token, a.now, l.Attempts + 1}
		jobs = append(jobs, Leased{
			Job: l.Job, Lease: t.String(), For: l.LeaseUntil.Sub(a.now), Attempt: t.attempt,
		})
	}
	return jobs
}

// recover asks for the lost answer until it comes, and releases its jobs: their callers have been told of the error.
func (f *flight) recover() {
	f.args[2] = "1"
	for backoff := 50 * time.Millisecond; ; backoff = min(2*backoff, 2*time.Second) {
		select {
		case <-f.s.ctx.Done():
			return
		case <-time.After(backoff):
		}
		a, err := f.call()
		if err != nil {
			continue
		}
		var jobs []Leased
		for len(f.tokens) > 0 {
			jobs = append(jobs, f.next(&a)...)
		}
		f.s.giveBack(f.bucket, jobs)
		return
	}
}

// giveBack releases jobs that reached no worker.
func (s *Shard) giveBack(bucket int, jobs []Leased) {
	if len(jobs) == 0 {
		return
	}
	for _, r := range s.end(s.ctx, bucket, Untaken(jobs)) {
		if r.Err != nil && !errors.Is(r.Err, ErrLease) {
			s.log.Warn("a job that reached no worker cannot be released; its lease expires", "error", r.Err)
		}
	}
}

// Spot is a bucket with those of some topics that it has.
type Spot struct {
	Shard  *Shard
	Bucket int
	Topics []string
}

// Spots are all buckets of all shards that may have jobs of topics, beginning with another shard each time.
func (q *Queue) Spots(topics []string, order Order) []Spot {
	shards := *q.shards.Load()
	if len(shards) == 0 {
		return nil
	}
	first := int(q.turn.Add(1) % uint64(len(shards)))
	var spots []Spot
	for i := range shards {
		spots = append(spots, shards[(first+i)%len(shards)].Spots(topics, order)...)
	}
	return spots
}

// Spots divides topics by the buckets that have them: in the order of the topics when they are listed, so that a bucket
// may be there several times, else in any.
func (s *Shard) Spots(topics []string, order Order) []Spot {
	if len(s.nodes) == 1 {
		return []Spot{{s, 0, topics}}
	}
	var spots []Spot
	at := map[int]int{} // where in spots a bucket is
	for _, t := range topics {
		b := s.bucketOf(t)
		i, there := at[b]
		if !there || (order == Listed && i != len(spots)-1) {
			i = len(spots)
			at[b] = i
			spots = append(spots, Spot{Shard: s, Bucket: b})
		}
		spots[i].Topics = append(spots[i].Topics, t)
	}
	if order == Fair {
		rand.Shuffle(len(spots), func(i, j int) { spots[i], spots[j] = spots[j], spots[i] })
	}
	return spots
}

// Take takes what is ready now, of one shard after the other. It does not wait; package pull does. Error:
// *UnavailableError when nothing was taken and a shard does not answer.
func (q *Queue) Take(ctx context.Context, r TakeRequest) ([]Leased, error) {
	var jobs []Leased
	spots := q.Spots(r.Topics, r.Order)
	if len(spots) == 0 {
		return nil, &UnavailableError{Reason: "down", RetryAfter: time.Second, Err: q.noShard()}
	}
	var missed error
	for _, at := range spots {
		ask := r
		ask.Topics, ask.Max = at.Topics, r.Max-len(jobs)
		taken, err := at.Shard.Take(ctx, at.Bucket, []TakeRequest{ask}, nil)
		if err != nil {
			missed = err
			continue
		}
		if jobs = append(jobs, taken.Jobs[0]...); len(jobs) >= r.Max {
			break
		}
	}
	if len(jobs) == 0 {
		return nil, missed
	}
	return jobs, nil
}
