package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// ShardConfig is a shard as the registry has it.
type ShardConfig struct {
	Name  string
	URL   string // as in redis.nodes of the configuration
	State string // active, draining (takes no new jobs) or offline
}

// Options of a Queue. Zero values take the defaults that are named.
type Options struct {
	Timeout  time.Duration // of one Redis command, 2 s
	PoolSize int           // connections to each server, go-redis's default
	Buckets  int           // parts of a Cluster, 16; must stay the same for the life of its data
	Logger   *slog.Logger
	// Accepted is called with every batch of pushes that a shard answered, before their callers are: an error makes all that
	// were stored fail. It may be called from several goroutines.
	Accepted func([]Push, []Result) error
	// Changed is called with every other accepted change of jobs, after it was made and before its caller is answered: an error
	// becomes the caller's. It may be called from several goroutines.
	Changed func(ChangeKind, []Job) error
	// Durability says where a topic's jobs must be before their pushes, changes and deletions are answered. nil: in memory.
	Durability func(topic string) Durability
	// Hold is how long at most Reserve takes no jobs from a server that has come new to a shard, while hosts compare their journals
	// with what it holds (see Checks). 0: it does not wait for them.
	Hold time.Duration
}

// Queue is all shards together. Its methods may be called from any goroutine.
type Queue struct {
	opts   Options
	pace   movePace
	shards atomic.Pointer[[]*Shard] // by name, offline ones left out
	takers atomic.Pointer[[]*Shard] // the active ones, as one state: read one by one while they change, all may seem not to be

	mu      sync.Mutex // of the following and of changes to shards
	topics  []TopicConf
	retired map[*Shard]*time.Timer // not in use any more, until they are closed
}

// retireAfter is how long a shard that is not in use any more stays open, for what came of calls that were under way.
const retireAfter = time.Minute

// Open makes a queue without shards; SetShards gives it some.
func Open(o Options) *Queue {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Buckets <= 0 {
		o.Buckets = 16
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	q := &Queue{opts: o, pace: unhurried, retired: map[*Shard]*time.Timer{}}
	q.shards.Store(&[]*Shard{})
	q.takers.Store(&[]*Shard{})
	return q
}

// Close ends all connections. Nothing may be called any more.
func (q *Queue) Close() error {
	q.mu.Lock()
	shards := slices.Clone(*q.shards.Swap(&[]*Shard{}))
	for s, t := range q.retired {
		if t.Stop() {
			shards = append(shards, s)
		}
	}
	q.mu.Unlock() // a shard waits for its listener, which may be waiting for q.mu
	var errs []error
	for _, s := range shards {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// retire closes a shard after a while. q.mu is held.
func (q *Queue) retire(s *Shard) {
	q.retired[s] = time.AfterFunc(retireAfter, func() {
		if err := s.close(); err != nil {
			q.opts.Logger.Warn("the connections of a shard that is not in use any more could not be closed", "shard", s.name, "error", err)
		}
		q.mu.Lock()
		delete(q.retired, s)
		q.mu.Unlock()
	})
}

// SetShards makes the queue use these shards. One that cannot be opened (its URL is wrong) is left out and named in the error.
func (q *Queue) SetShards(_ context.Context, configs []ShardConfig) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := map[string]*Shard{}
	for _, s := range *q.shards.Load() {
		old[s.name] = s
	}
	var list []*Shard
	var errs []error
	states := map[*Shard]string{}
	for _, c := range configs {
		if c.State == "offline" {
			continue
		}
		s := old[c.Name]
		if s == nil || s.url != c.URL {
			var err error
			if s, err = openShard(c, q.opts, func(ctx context.Context, s *Shard) error { return q.syncTopics(ctx, s) }); err != nil {
				errs = append(errs, err)
				continue
			}
		} else {
			delete(old, c.Name)
		}
		states[s] = c.State
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *Shard) int { return cmp.Compare(a.name, b.name) })
	q.shards.Store(&list)
	var takers []*Shard
	for s, state := range states {
		s.state.Store(state)
		if state == "active" {
			takers = append(takers, s)
		}
	}
	q.takers.Store(&takers)
	for _, s := range old {
		q.retire(s)
	}
	return errors.Join(errs...)
}

// Shards are those in use, by name.
func (q *Queue) Shards() []*Shard { return slices.Clone(*q.shards.Load()) }

// Ready says why no push could be taken now, or nil.
func (q *Queue) Ready() error {
	err := errors.New("no shard is active: register one, or set redis.nodes")
	for _, s := range *q.takers.Load() {
		if s.Up() {
			return nil
		}
		err = fmt.Errorf("shard %s does not answer", s.name)
	}
	return err
}

// order lists the shards in which a job is looked for: active ones by rendezvous hashing (the first is its home, the next
// takes it while that is down), then the draining ones.
func (q *Queue) order(topic, id string) []*Shard {
	list := byWeight(*q.shards.Load(), topic, id)
	slices.SortStableFunc(list, func(a, b *Shard) int {
		if aa, ba := a.State() == "active", b.State() == "active"; aa != ba {
			if aa {
				return -1
			}
			return 1
		}
		return 0
	})
	return list
}

// byWeight is the order of rendezvous hashing.
func byWeight(shards []*Shard, topic, id string) []*Shard {
	if len(shards) <= 1 {
		return shards
	}
	h := xxhash.New()
	_, _ = h.WriteString(topic)
	_, _ = h.Write([]byte{0})
	_, _ = h.WriteString(id)
	sum := h.Sum64()
	list := slices.Clone(shards)
	slices.SortFunc(list, func(a, b *Shard) int { return cmp.Compare(mix(sum^b.seed), mix(sum^a.seed)) })
	return list
}

// mix spreads the bits of x (the finaliser of SplitMix64, by Sebastiano Vigna), so that weights of different shards are independent.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Push stores one job.
func (q *Queue) Push(ctx context.Context, p Push) Result {
	push := []Push{p}
	shards := *q.shards.Load()
	if len(shards) != 1 || shards[0].State() != "active" || tooFar(&p) != nil {
		return q.PushBatch(ctx, push)[0]
	}
	return shards[0].nodes[shards[0].bucketOf(p.Topic)].pushes[q.durability(p.Topic)].push(ctx, push)[0]
}

// PushBatch stores jobs; each has its own outcome. A job goes to its home shard, or to the next in its order that can take it.
func (q *Queue) PushBatch(ctx context.Context, pushes []Push) []Result {
	results := make([]Result, len(pushes))
	todo := make([]int, 0, len(pushes))
	for i := range pushes {
		if results[i].Err = tooFar(&pushes[i]); results[i].Err == nil {
			todo = append(todo, i)
		}
	}
	var replaced map[int][]*Shard
	if len(*q.shards.Load()) > 1 {
		todo, replaced = q.settleElsewhere(ctx, pushes, results, todo)
	}
	none := &UnavailableError{Reason: "down", RetryAfter: time.Second, Err: q.noShard()}
	for _, i := range todo {
		results[i].Err = none
	}
	for try := 0; len(todo) > 0; try++ {
		groups := map[*Shard][]int{}
		for _, i := range todo {
			if order := q.active(pushes[i].Topic, pushes[i].ID); try < len(order) {
				groups[order[try]] = append(groups[order[try]], i)
			}
		}
		if len(groups) == 0 {
			break
		}
		todo = q.pushGroups(ctx, groups, pushes, results)
	}
	q.removeReplaced(ctx, pushes, results, replaced)
	return results
}

// removeReplaced removes old jobs whose replacements another shard has stored. A replacement that no shard took leaves the old
// job as it is. When an old job cannot be removed both exist, and the caller is told to push again.
func (q *Queue) removeReplaced(ctx context.Context, pushes []Push, results []Result, replaced map[int][]*Shard) {
	for i, holders := range replaced {
		r := &results[i]
		if r.Err != nil && !Stored(r.Err) {
			continue
		}
		for _, s := range holders {
			if s.name == r.Job.Shard { // its script has replaced the job
				continue
			}
			removed, err := s.remove(ctx, pushes[i].Topic, pushes[i].ID, Memory)
			if err == nil && removed.job != nil {
				err = q.record(MovedOut, *removed.job)
			}
			if err != nil {
				*r = Result{Err: err}
				break
			}
			r.Duplicate = r.Err == nil
		}
	}
}

func (q *Queue) noShard() error {
	if err := q.Ready(); err != nil {
		return err
	}
	return errors.New("no active shard took it")
}

func tooFar(p *Push) error {
	if p.Delay > MaxDelay || (!p.DueAt.IsZero() && time.Until(p.DueAt) > MaxDelay) {
		return fmt.Errorf("push %s/%s: %w", p.Topic, p.ID, ErrTooFar)
	}
	return nil
}

// active are the shards that take a push, its home first.
func (q *Queue) active(topic, id string) []*Shard { return byWeight(*q.takers.Load(), topic, id) }

// pushGroups pushes to several shards and buckets at once and returns those that found their shard unavailable.
func (q *Queue) pushGroups(ctx context.Context, groups map[*Shard][]int, pushes []Push, results []Result) (failed []int) {
	type part struct {
		pushes *batcher
		which  []int
	}
	var parts []part
	for s, which := range groups {
		to := map[*batcher][]int{}
		for _, i := range which {
			b := &s.nodes[s.bucketOf(pushes[i].Topic)].pushes[q.durability(pushes[i].Topic)]
			to[b] = append(to[b], i)
		}
		for b, w := range to {
			parts = append(parts, part{b, w})
		}
	}
	var wg sync.WaitGroup
	store := func(p part) {
		list := pushes
		if len(p.which) != len(pushes) {
			list = make([]Push, len(p.which))
			for k, i := range p.which {
				list[k] = pushes[i]
			}
		}
		for k, r := range p.pushes.push(ctx, list) {
			results[p.which[k]] = r
		}
	}
	for _, p := range parts[1:] {
		wg.Go(func() { store(p) })
	}
	store(parts[0])
	wg.Wait()
	for _, p := range parts {
		for _, i := range p.which {
			if results[i].Err == nil {
				continue
			}
			var un *UnavailableError
			if errors.As(results[i].Err, &un) && un.Reason != "journal" && !un.Stored {
				failed = append(failed, i)
			}
		}
	}
	slices.Sort(failed)
	return failed
}

// settleElsewhere looks for pushes that live already in a shard that is not their home: pushed while their home was down, or
// before a shard was added. It answers those that keep or refuse, and returns the rest, and where there are jobs that they replace.
// A shard that does not answer cannot be asked.
func (q *Queue) settleElsewhere(
	ctx context.Context, pushes []Push, results []Result, todo []int,
) (rest []int, replaced map[int][]*Shard) {
	away := map[*Shard][]int{}
	for _, i := range todo {
		if pushes[i].Fresh {
			continue
		}
		for k, s := range q.order(pushes[i].Topic, pushes[i].ID) {
			if s.Up() && (k > 0 || s.State() != "active") { // its home sees by itself
				away[s] = append(away[s], i)
			}
		}
	}
	var mu sync.Mutex
	answered := map[int]bool{}
	replaced = map[int][]*Shard{}
	var wg sync.WaitGroup
	for s, which := range away {
		wg.Go(func() {
			found := s.getMany(ctx, pushes, which)
			unsafe := q.confirmKept(ctx, s, pushes, found)
			for i, job := range found {
				mu.Lock()
				switch {
				case pushes[i].OnDuplicate == Replace:
					replaced[i] = append(replaced[i], s)
				case !answered[i]:
					answered[i] = true
					results[i] = duplicateOf(&pushes[i], job)
				}
				if results[i].Duplicate && unsafe[i] != nil {
					results[i] = Result{Job: *job, Err: unsafe[i]}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	q.acceptKept(pushes, results, answered)
	return slices.DeleteFunc(todo, func(i int) bool { return answered[i] }), replaced
}

// acceptKept has those recorded that keep the job which they found elsewhere.
func (q *Queue) acceptKept(pushes []Push, results []Result, answered map[int]bool) {
	var kept []Push
	var found []Result
	for i, yes := range answered {
		if yes && results[i].Duplicate {
			kept, found = append(kept, pushes[i]), append(found, results[i])
		}
	}
	if len(kept) == 0 || q.opts.Accepted == nil {
		return
	}
	if err := q.opts.Accepted(kept, found); err != nil {
		for i, yes := range answered {
			if yes && results[i].Duplicate {
				results[i] = Result{Err: &UnavailableError{Reason: "journal", RetryAfter: time.Second, Err: err}}
			}
		}
	}
}

// duplicateOf is the result of a push that does not replace the job of its id.
func duplicateOf(p *Push, job *Job) Result {
	if p.OnDuplicate == Refuse {
		return Result{Job: *job, Err: fmt.Errorf("push %s/%s: %w", p.Topic, p.ID, ErrDuplicate)}
	}
	return Result{Job: *job, Duplicate: true}
}

// confirmKept waits until a replica has the jobs that pushes keep, where their topics ask for that, and says by index why none has.
func (q *Queue) confirmKept(ctx context.Context, s *Shard, pushes []Push, found map[int]*Job) map[int]error {
	unsafe := map[int]error{}
	waited := map[int]error{} // by bucket
	for i := range found {
		p := &pushes[i]
		if p.OnDuplicate != Keep || q.durability(p.Topic) == Memory {
			continue
		}
		bucket := s.bucketOf(p.Topic)
		if _, ok := waited[bucket]; !ok {
			waited[bucket] = s.awaitReplica(ctx, bucket)
		}
		if err := waited[bucket]; err != nil {
			unsafe[i] = s.notReplicated("push", p.Topic, p.ID, err)
		}
	}
	return unsafe
}
