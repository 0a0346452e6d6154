package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

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
