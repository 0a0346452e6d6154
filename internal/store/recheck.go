package store

import (
	"context"
	"time"
)

const (
	recheckEvery = time.Second // many requests may wait for it
	recheckFor   = time.Minute
	recheckMax   = 10_000 // pushes of a bucket at once: their bodies are held
)

// Recheck calls Options.Accepted for those of the pushes that the bucket has stored without a reply, as soon as it
// answers. Their callers know only that they may be stored. But a job that they replaced, which was acknowledged, is
// gone; without a line in the journal, Redis could lose both.
func (b *Bucket) Recheck(pushes []Push) {
	n := int64(len(pushes))
	if b.accepted == nil {
		return
	}
	if b.rechecking.Add(n) > recheckMax {
		b.rechecking.Add(-n)
		return
	}
	began := time.Now()
	started := b.shard.Start(func() {
		defer b.rechecking.Add(-n)
		b.shard.retry(recheckEvery, func() (done bool) {
			return time.Since(began) > recheckFor || !b.IsDown() && b.recordStored(pushes) == nil
		})
	})
	if !started {
		b.rechecking.Add(-n)
	}
}

func (b *Bucket) recordStored(pushes []Push) error {
	ctx, cancel := context.WithTimeout(b.shard.ctx, b.shard.timeout)
	defer cancel()
	refs := make([]Ref, len(pushes))
	for i := range pushes {
		refs[i] = Ref{pushes[i].Topic, pushes[i].ID}
	}
	jobs, err := Live(b.shard.Read(ctx, refs))
	if err != nil {
		return err
	}
	var stored []Push
	var results []Result
	for i, job := range jobs {
		if job != nil && isOwn(&pushes[i], job) {
			stored, results = append(stored, pushes[i]), append(results, Result{Job: *job})
		}
	}
	if len(stored) == 0 {
		return nil
	}
	return b.accepted(stored, results)
}
