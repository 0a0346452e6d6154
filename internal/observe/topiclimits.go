package observe

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TopicLimits holds the window and breaker of a topic, from the shard with the worst ones.
type TopicLimits struct {
	Window      int64     // calls in flight that its endpoint is allowed
	Failures    int64     // in a row
	BreakerOpen time.Time // when it allows the next probe; zero: it is closed
}

// TopicLimits reads the windows and breakers of topics. With a *PartialError the answer is from the shards that
// answered.
func (q Figures) TopicLimits(ctx context.Context, topics []string) (map[string]TopicLimits, error) {
	all := make(map[string]TopicLimits, len(topics))
	err := q.Shards.EachTopic(topics, store.TopicStep, func(b *store.Bucket, some []string) error {
		args := append([]any{""}, store.Anys(some)...)
		reply, err := b.CallList(ctx, 1+standingFields*len(some), standingScript, args...)
		if err != nil {
			return err
		}
		counts := store.Ints(reply)
		for i, topic := range some {
			n := counts[1+standingFields*i:]
			l := TopicLimits{Window: n[0], Failures: n[1], BreakerOpen: unlessZero(n[2])}
			if was, seen := all[topic]; !seen || worse(l, was) {
				all[topic] = l
			}
		}
		return nil
	})
	return all, err
}

func worse(a, b TopicLimits) bool {
	if !a.BreakerOpen.Equal(b.BreakerOpen) {
		return a.BreakerOpen.After(b.BreakerOpen)
	}
	return a.Failures > b.Failures
}
