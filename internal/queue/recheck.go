package queue

import "github.com/wakecall/wakecall/internal/store"

// recheck lets the shards that may have stored a push without a reply find out, and record it.
func (q *Queue) recheck(pushes []store.Push, results []store.Result) {
	var maybe map[*store.Bucket][]store.Push
	for i := range results {
		if !store.IsUnanswered(results[i].Err) {
			continue
		}
		if maybe == nil {
			maybe = map[*store.Bucket][]store.Push{}
		}
		p := &pushes[i]
		for _, s := range q.Shards.activeFor(p.Topic, homeOf(p.ID, p.Key)) {
			b := s.BucketOf(p.Topic)
			maybe[b] = append(maybe[b], *p)
		}
	}
	for b, some := range maybe {
		b.Recheck(some)
	}
}
