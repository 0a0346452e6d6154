package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

func (q *Queue) pushBatch(ctx context.Context, pushes []store.Push) []store.Result {
	b := &pushBatch{
		q: q, began: time.Now(), pushes: pushes, results: make([]store.Result, len(pushes)),
		replaced: map[int][]*store.Bucket{},
	}
	todo := make([]int, 0, len(pushes))
	for i := range pushes {
		if b.results[i].Err = validatePush(&pushes[i]); b.results[i].Err == nil {
			todo = append(todo, i)
		}
	}
	if len(*q.Shards.all.Load()) > 1 {
		todo = b.answerExisting(ctx, todo)
	}
	none := &store.UnavailableError{Reason: "down", RetryAfter: time.Second, Err: q.noShard()}
	for _, i := range todo {
		b.results[i].Err = none
	}
	for try := 0; len(todo) > 0; try++ {
		todo = b.store(ctx, todo, try)
	}
	b.removeReplaced(ctx)
	return b.results
}

func (q *Queue) noShard() error {
	if err := q.Ready(); err != nil {
		return err
	}
	return errors.New("no active shard accepted the job")
}

// pushBatch holds pushes that may go to several shards. Indexes name the jobs.
type pushBatch struct {
	q        *Queue
	began    time.Time
	pushes   []store.Push
	results  []store.Result
	replaced map[int][]*store.Bucket // buckets that have a job which the push replaces
}

// store pushes each job to the next shard of its order, to all shards and buckets concurrently. It returns the jobs
// whose shard is unavailable, and none when no shard is left to try. A push that replaces a job goes no further than
// that job's shard: otherwise both would be called.
func (b *pushBatch) store(ctx context.Context, todo []int, try int) (failed []int) {
	to := map[destination][]int{}
	for _, i := range todo {
		p := &b.pushes[i]
		if order := b.q.Shards.activeFor(p.Topic, homeOf(p.ID, p.Key)); try < len(order) {
			pushes := b.q.destination(order[try], p.Topic)
			to[pushes] = append(to[pushes], i)
		}
	}
	storeIn := b.storeIn
	if try == 1 {
		b.pushes = slices.Clone(b.pushes) // the caller's
	}
	if try > 0 {
		storeIn = b.storeElsewhere
	}
	var wg sync.WaitGroup
	for pushes, which := range to {
		if len(to) == 1 {
			storeIn(ctx, pushes, which)
			break
		}
		wg.Go(func() { storeIn(ctx, pushes, which) })
	}
	wg.Wait()
	for pushes, which := range to {
		for _, i := range which {
			var un *store.UnavailableError
			if errors.As(b.results[i].Err, &un) && un.Reason != "journal" && un.Reason != store.Absent && !un.Stored &&
				!b.heldBy(i, pushes.bucket) {
				failed = append(failed, i)
			}
		}
	}
	slices.Sort(failed)
	return failed
}

// heldBy reports whether a bucket has the job that a push replaces.
func (b *pushBatch) heldBy(i int, in *store.Bucket) bool { return slices.Contains(b.replaced[i], in) }

func (b *pushBatch) storeIn(ctx context.Context, to destination, which []int) {
	list := b.pushes
	if len(which) != len(list) {
		list = make([]store.Push, len(which))
		for k, i := range which {
			list[k] = b.pushes[i]
		}
	}
	for k, r := range to.push(ctx, list) {
		b.results[which[k]] = r
	}
}

// storeElsewhere is storeIn for pushes that another shard has not answered. That shard may have stored them since the
// batch began, so they get an instant instead of a delay. The clock of this shard is known to within the time of a
// request: no copy is due before its delay has passed, nor before the time that is answered.
func (b *pushBatch) storeElsewhere(ctx context.Context, to destination, which []int) {
	clock, err := to.bucket.Clock(ctx)
	if err != nil {
		for _, i := range which {
			b.results[i] = store.Result{Err: err}
		}
		return
	}
	answers := map[int]time.Time{}
	for _, i := range which {
		p := &b.pushes[i]
		if ms, instant := store.AskedTime(p); !instant {
			delay := time.Duration(ms) * time.Millisecond
			answers[i] = clock.Least(b.began).Add(delay).Truncate(time.Millisecond).UTC()
			p.DueAt, p.Delay = clock.Most(b.began).Add(delay).UTC(), 0
		}
	}
	b.storeIn(ctx, to, which)
	for i, due := range answers {
		if r := &b.results[i]; r.Err == nil && (!r.Duplicate || b.pushes[i].OnDuplicate == store.Replace) {
			r.Job.DueAt = due
		}
	}
}

// answerExisting looks for ids that already exist in a shard that is not their home: they were pushed while their home
// was down, or before a shard was added. It answers pushes that keep or refuse these jobs, and returns the rest. While
// a shard does not answer, it refuses pushes that replace, since the old job could be called as well.
func (b *pushBatch) answerExisting(ctx context.Context, todo []int) (rest []int) {
	away := map[*store.Shard][]int{}
	for _, i := range todo {
		p := &b.pushes[i]
		if p.Fresh {
			continue
		}
		for k, s := range b.q.Shards.order(p.Topic, homeOf(p.ID, p.Key)) {
			// The push script finds it in its home. Replace must know before, since it then goes to no other shard.
			if k > 0 || s.State() != "active" || p.OnDuplicate == store.Replace {
				away[s] = append(away[s], i)
			}
		}
	}
	var mu sync.Mutex
	answered := map[int]bool{}
	missed := map[*store.Shard]error{}
	var wg sync.WaitGroup
	for s, which := range away {
		wg.Go(func() {
			refs := make([]store.Ref, len(which))
			for k, i := range which {
				refs[k] = store.Ref{Topic: b.pushes[i].Topic, ID: b.pushes[i].ID}
			}
			found, err := s.Read(ctx, refs) // a shard that does not answer counts as without the jobs
			b.dropFinished(which, found)
			unsafe := b.confirmKept(ctx, s, which, found)
			mu.Lock()
			defer mu.Unlock()
			missed[s] = err
			for k, i := range which {
				if found[k] != nil {
					answered[i] = b.found(i, s, found[k], unsafe[i]) || answered[i]
				}
			}
		})
	}
	wg.Wait()
	b.acceptKept(answered)
	return slices.DeleteFunc(todo, func(i int) bool { return answered[i] || b.refuseReplace(i, missed) })
}

// dropFinished removes the finished jobs that do not count as duplicates.
func (b *pushBatch) dropFinished(which []int, found []*store.Job) {
	for k, i := range which {
		p := &b.pushes[i]
		if found[k] != nil && found[k].State == store.Finished &&
			(p.Again || p.OnDuplicate == store.Replace || b.q.opts.Remembers == nil || !b.q.opts.Remembers(p.Topic)) {
			found[k] = nil
		}
	}
}

// refuseReplace refuses a push that replaces when the old job may be in a shard that did not answer: in any, or, when a
// shard has it, in one before that.
func (b *pushBatch) refuseReplace(i int, missed map[*store.Shard]error) bool {
	p := &b.pushes[i]
	if p.OnDuplicate != store.Replace || p.Fresh {
		return false
	}
	for _, s := range b.q.Shards.order(p.Topic, homeOf(p.ID, p.Key)) {
		if err := missed[s]; err != nil {
			b.results[i] = store.Result{Err: err}
			return true
		}
		if b.heldBy(i, s.BucketOf(p.Topic)) {
			return false
		}
	}
	return false
}

// found records that a shard has the job which a push replaces, or answers the push with a job that is not in its home
// shard.
func (b *pushBatch) found(i int, s *store.Shard, job *store.Job, unsafe error) (answered bool) {
	if b.pushes[i].OnDuplicate == store.Replace {
		b.replaced[i] = append(b.replaced[i], s.BucketOf(b.pushes[i].Topic))
		return false
	}
	b.results[i] = store.DuplicateOf(&b.pushes[i], job)
	if unsafe != nil {
		b.results[i] = store.Result{Job: *job, Err: unsafe}
	}
	return true
}

// confirmKept waits until a replica has the jobs that pushes keep, if their topics' durability requires it. It returns,
// by push, why no replica has confirmed.
func (b *pushBatch) confirmKept(ctx context.Context, s *store.Shard, which []int, found []*store.Job) map[int]error {
	unsafe := map[int]error{}
	waited := map[*store.Bucket]error{}
	for k, i := range which {
		p := &b.pushes[i]
		if found[k] == nil || p.OnDuplicate != store.Keep || b.q.durability(p.Topic) == store.Memory {
			continue
		}
		bucket := s.BucketOf(p.Topic)
		if _, ok := waited[bucket]; !ok {
			waited[bucket] = bucket.AwaitReplica(ctx)
		}
		if err := waited[bucket]; err != nil {
			unsafe[i] = bucket.NotReplicated("push", p.Topic, p.ID, err)
		}
	}
	return unsafe
}

// acceptKept calls Options.Accepted for pushes that keep a job in another shard, as newPushes does for all others.
func (b *pushBatch) acceptKept(answered map[int]bool) {
	var which []int
	var kept []store.Push
	var found []store.Result
	for i := range answered {
		if answered[i] && b.results[i].Duplicate {
			which, kept, found = append(which, i), append(kept, b.pushes[i]), append(found, b.results[i])
		}
	}
	if len(kept) == 0 || b.q.opts.Accepted == nil {
		return
	}
	if err := unrecorded(b.q.opts.Accepted(kept, found)); err != nil {
		for _, i := range which {
			b.results[i] = store.Result{Err: err}
		}
	}
}

// removeReplaced removes old jobs whose replacements another shard has stored. If no shard has stored the replacement,
// the old job stays. If an old job cannot be removed, both exist, and the error asks the caller to push again.
func (b *pushBatch) removeReplaced(ctx context.Context) {
	for i, holders := range b.replaced {
		r := &b.results[i]
		if r.Err != nil && !store.Stored(r.Err) {
			continue
		}
		for _, in := range holders {
			if in.Shard().Name() == r.Job.Shard { // its script has replaced the job
				continue
			}
			removed, err := in.Remove(ctx, b.pushes[i].Topic, b.pushes[i].ID, nil, store.Memory)
			if err == nil && removed.Job != nil {
				err = b.q.record(ctx, store.MovedOut, *removed.Job)
			}
			if err != nil {
				*r = store.Result{Err: err}
				break
			}
			r.Duplicate = r.Err == nil
		}
	}
}
