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
	Next    uint64            `json:"next"`
	Offsets map[string]uint64 `json:"offsets,omitempty"` // of the ids of the processes that were imported from
}

// room is how many ids an imported server may still give while its producers move.
const room = 1_000_000_000

// Offset is what is added to the ids of a process of beanstalkd that is imported, whose last id is given: 0 for the first
// one, unless a gateway has given ids already. All ids that the gateways give from now on are larger.
func Offset(ctx context.Context, r Registry, process string, last uint64) (offset uint64, err error) {
	c := counter{Next: 1}
	err = r.EditSetting(ctx, actor, setting, &c, func() error {
		var known bool
		if offset, known = c.Offsets[process]; !known && c.Next > 1 {
			offset = c.Next
		}
		if c.Offsets == nil {
			c.Offsets = map[string]uint64{}
		}
		c.Offsets[process] = offset
		if !known {
			c.Next = offset + last + room
		}
		return nil
	})
	return offset, err
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
