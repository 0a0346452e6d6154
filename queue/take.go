package queue

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

var errLeft = errors.New("the worker has left")

// awaitFor is how long a bucket notes that a topic is waited for. Whoever waits takes again before that.
const awaitFor = time.Minute

// takePattern is 5:3:2.
const takePattern = "0102010201"

// takeCall is what one goroutine wants of a bucket.
type takeCall struct {
	requests []TakeRequest
	await    []string
	groups   []*takeGroup // of the requests; nil: its worker has left
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
	return newGatherer(s, maxFlying, maxTaken, call)
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
	groups []*takeGroup
	args   []any
	head   []any // what the answer begins with
}

// takeGroup are successive requests that ask for the same. The script takes jobs for all of them at once, which are
// handed out in the order of the requests.
type takeGroup struct {
	TakeRequest // Max of all
	token       string
	jobs        []Leased
}

func (f *flight) fly() {
	token := crand.Text()
	f.encode(token)
	if len(f.groups) == 0 && len(f.args) == takeHead { // nobody is there any more
		f.fail(errLeft)
		return
	}
	err := f.call()
	if err == nil {
		f.deliver()
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
	for _, c := range f.calls {
		c.groups = make([]*takeGroup, len(c.requests))
		for i := range c.requests {
			if r := &c.requests[i]; r.Alive == nil || r.Alive() {
				c.groups[i] = f.join(r)
			}
		}
		await = append(await, c.await...)
	}
	f.args = append([]any{f.name, token, "", takePattern, len(await), awaitFor.Milliseconds()}, anys(await)...)
	for _, g := range f.groups {
		ttr := ""
		if g.TTR > 0 {
			ttr = strconv.FormatInt(max(1, g.TTR.Milliseconds()), 10)
		}
		f.args = append(f.args, g.token, orderNames[g.Order], g.Max, ttr, len(g.Topics))
		f.args = append(f.args, anys(g.Topics)...)
	}
}

// join adds a request to the last group, if that asks for the same, else to a new one.
func (f *flight) join(r *TakeRequest) *takeGroup {
	if n := len(f.groups); n > 0 {
		g := f.groups[n-1]
		if g.Order == r.Order && g.TTR == r.TTR && slices.Equal(g.Topics, r.Topics) {
			g.Max += min(r.Max, TakeLimit)
			return g
		}
	}
	g := &takeGroup{TakeRequest: *r, token: newToken()}
	g.Max = min(r.Max, TakeLimit)
	f.groups = append(f.groups, g)
	return g
}

const takenHead = 5 // length of what the answer of take.lua begins with

// call calls the script, and reads what the groups got.
func (f *flight) call() error {
	reply, err := f.s.run(context.WithoutCancel(f.s.ctx), f.bucket, "take", f.args...)
	if err != nil {
		return err
	}
	v, ok := reply.([]any)
	if !ok || len(v) < takenHead || (len(v)-takenHead)%reservedJob != 0 {
		return fmt.Errorf("take from shard %s: %w", f.s.name, errReply)
	}
	if newer, _ := v[2].(string); newer != "" {
		f.s.logNewer(newer)
	}
	counts, _ := v[4].(string)
	got := strings.Fields(counts)
	if len(got) != len(f.groups) {
		return fmt.Errorf("take from shard %s: %w", f.s.name, errReply)
	}
	f.head, v = v[:takenHead], v[takenHead:]
	for i, g := range f.groups {
		n, _ := strconv.Atoi(got[i])
		n = min(n, len(v)/reservedJob)
		g.jobs = f.read(v[:n*reservedJob], g.token)
		v = v[n*reservedJob:]
	}
	return nil
}

// read reads the jobs of one group.
func (f *flight) read(v []any, token string) []Leased {
	now, jobs := millis(f.head[0]), make([]Leased, 0, len(v)/reservedJob)
	for ; len(v) > 0; v = v[reservedJob:] {
		l, err := f.s.leased(v[:reservedJob], token)
		if err != nil {
			f.s.log.Error("a reserved job cannot be read; it dies when enough leases have expired", "error", err)
			continue
		}
		jobs = append(jobs, *f.s.handed(l, now))
	}
	return jobs
}

func (f *flight) fail(err error) {
	for _, c := range f.calls {
		c.refuse(err)
	}
}

// deliver gives every caller its jobs, and releases those of callers who have left.
func (f *flight) deliver() {
	var retry time.Duration
	if at, _ := f.head[1].(int64); at > 0 {
		retry = millis(at).Sub(millis(f.head[0]))
	}
	names, _ := f.head[3].(string)
	more := strings.Fields(names)
	var left []Leased
	for _, c := range f.calls {
		t := Taken{Jobs: make([][]Leased, len(c.requests)), Retry: retry}
		for i, g := range c.groups {
			if g != nil {
				n := min(c.requests[i].Max, TakeLimit, len(g.jobs))
				t.Jobs[i], g.jobs = g.jobs[:n:n], g.jobs[n:]
			}
		}
		for _, topic := range c.await {
			if slices.Contains(more, topic) {
				t.More = append(t.More, topic)
			}
		}
		if !c.answer(t, nil) {
			left = append(left, slices.Concat(t.Jobs...)...)
		}
	}
	f.s.giveBack(f.bucket, left)
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
		if f.call() != nil {
			continue
		}
		for _, g := range f.groups {
			f.s.giveBack(f.bucket, g.jobs)
		}
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

// takeStep is how many topics one call of the script asks at most: some milliseconds of Redis.
const takeStep = 250

// Spots are all buckets of all shards that may have jobs of topics, beginning with another shard each time. A bucket with
// many of them is there several times.
func (q *Queue) Spots(topics []string, order Order) []Spot {
	shards := *q.shards.Load()
	if len(shards) == 0 {
		return nil
	}
	first := int(q.turn.Add(1) % uint64(len(shards)))
	var spots []Spot
	for i := range shards {
		for _, at := range shards[(first+i)%len(shards)].Spots(topics, order) {
			for some := range slices.Chunk(at.Topics, takeStep) {
				spots = append(spots, Spot{at.Shard, at.Bucket, some})
			}
		}
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
