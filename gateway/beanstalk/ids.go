package beanstalk

import (
	"context"
	"sync"
)

// block is how many ids a gateway takes at a time.
const block = 10_000

// ids counts jobs, in blocks that the registry gives to one gateway alone.
type ids struct {
	registry Registry

	mu         sync.Mutex
	next, last uint64 // last is the one after the block
}

// counter is the setting of the next block.
type counter struct {
	Next uint64 `json:"next"`
}

const (
	setting = "beanstalk"
	actor   = "gateway beanstalk"
)

// take returns an id that no job has had.
func (i *ids) take(ctx context.Context) (uint64, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.next == i.last {
		c := counter{Next: 1}
		var first uint64
		err := i.registry.EditSetting(ctx, actor, setting, &c, func() error {
			first = c.Next
			c.Next += block
			return nil
		})
		if err != nil {
			return 0, err
		}
		i.next, i.last = first, first+block
	}
	id := i.next
	i.next++
	return id, nil
}
