package beanstalk

import (
	"context"
	"sync"
	"time"
)

// block is how many ids a gateway takes at a time.
const block = 100_000

// ids counts jobs, in blocks that the registry gives to one gateway alone. One block is in reserve: puts go on while
// the registry's database is away.
type ids struct {
	registry Registry

	mu         sync.Mutex
	next, last uint64 // last is the one after the block
	reserve    uint64 // the first of the next block; 0: there is none

	filling sync.Mutex // is held while a block is taken
	err     error      // of the last try that failed
	failed  time.Time
}

// counter is the setting of the next block.
type counter struct {
	Next    uint64            `json:"next"`
	Offsets map[string]uint64 `json:"offsets,omitempty"` // of the ids of the processes that were imported from
}

// room is how many ids an imported server may still give while its producers move.
const room = 1_000_000_000

// Offset is what is added to the ids of a process of beanstalkd that is imported, whose last id is given: 0 for the
// first one, unless a gateway has given ids already. All ids that the gateways give from now on are larger.
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
	for {
		if id, ok := i.known(); ok {
			return id, nil
		}
		if err := i.refill(ctx); err != nil {
			return 0, err
		}
	}
}

// known is the next id, if there is a block.
func (i *ids) known() (id uint64, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.next == i.last {
		if i.reserve == 0 {
			return 0, false
		}
		i.next, i.last, i.reserve = i.reserve, i.reserve+block, 0
	}
	i.next++
	return i.next - 1, true
}

// refillEvery is how soon a block that was begun is replaced, and how long the database is left alone after a failure:
// many puts may wait for it, one after the other.
const refillEvery = time.Second

// keepReserve keeps a block in reserve until ctx is done. A put that finds none tells of the error.
func (i *ids) keepReserve(ctx context.Context) {
	tick := time.NewTicker(refillEvery)
	defer tick.Stop()
	for {
		_ = i.refill(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// refill takes a block in reserve if there is none.
func (i *ids) refill(ctx context.Context) error {
	i.filling.Lock()
	defer i.filling.Unlock()
	i.mu.Lock()
	full := i.reserve != 0
	i.mu.Unlock()
	if full {
		return nil
	}
	if time.Since(i.failed) < refillEvery {
		return i.err
	}
	first, err := i.takeBlock(ctx)
	if err != nil {
		if ctx.Err() == nil { // else its client has left
			i.err, i.failed = err, time.Now()
		}
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reserve = first
	return nil
}

func (i *ids) takeBlock(ctx context.Context) (first uint64, err error) {
	c := counter{Next: 1}
	err = i.registry.EditSetting(ctx, actor, setting, &c, func() error {
		first = c.Next
		c.Next += block
		return nil
	})
	return first, err
}
