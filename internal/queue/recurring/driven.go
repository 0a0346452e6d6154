package recurring

import (
	"container/heap"
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Driven pushes the occurrences of one bucket whose clock stands until its owner moves it, who then calls Step.
type Driven struct{ lane lane }

// Driven returns a Driven for a bucket. It is for one goroutine.
func (r *Runner) Driven(b *store.Bucket) *Driven {
	return &Driven{lane{Runner: r, bucket: b, entries: map[string]*entry{}}}
}

// Step pushes the occurrences that have come. It returns when something is to be done next; zero: never.
func (d *Driven) Step(ctx context.Context) (next time.Time, err error) {
	l, s := &d.lane, d.lane.opts.Registry.Snapshot()
	l.follow(s)
	if len(l.queue) == 0 {
		return time.Time{}, nil
	}
	if l.clock, err = l.bucket.Clock(ctx); err != nil {
		return time.Time{}, err
	}
	if err := l.fireDue(ctx); err != nil {
		return time.Time{}, err
	}
	for e := l.queue[0]; e.at.Sub(l.clock.Now) <= askAgain && blocked(s.Topic(e.Topic)); e = l.queue[0] {
		e.at = l.clock.Now.Add(idle) // only a request changes that, and most come between two moves of the clock
		heap.Fix(&l.queue, 0)
	}
	return l.queue[0].at, nil
}

// blocked reports whether a schedule's topic, nil if there is none, takes no pushes.
func blocked(topic *registry.Topic) bool {
	return topic == nil || topic.State == registry.TopicOffline
}
