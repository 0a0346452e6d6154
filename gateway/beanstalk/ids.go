package beanstalk

import (
	"context"
	"sync"
	"time"
)

// block is how many ids a gateway takes at a time.
const block = 100_000

// Settings stores the counter of ids.
type Settings interface {
	EditSetting(ctx context.Context, actor, name string, value any, edit func() error) error
}

// ids allocates job ids from blocks that the registry assigns to one gateway each. It keeps one block in reserve, so
// that puts continue while the registry's database is unavailable.
type ids struct {
	registry Settings

	mu         sync.Mutex
	next, last uint64 // last is the first id after the block
	reserve    uint64 // the first id of the next block; 0: there is none

	filling sync.Mutex // held while a block is taken
	err     error      // the last failure
	failed  time.Time
}

// counter is the setting that stores the next block.
type counter struct {
	Next    uint64            `json:"next"`
	Offsets map[string]uint64 `json:"offsets,omitempty"` // added to the ids of imported processes
}

// firstID is the first id that gateways assign. It is beyond the ids of a beanstalkd, which count from 1, so that the
// first import keeps them, even if a gateway is already in use. Clients that store numbers as 64-bit floats can store
// it.
const firstID = 1_000_000_000_001

// room is how many more ids an imported server may assign while its producers switch over.
const room = 1_000_000_000

// offsetOf returns the number to add to the ids of an imported beanstalkd process, given its last id. It is 0 for the
// first import, whose ids do not meet those that gateways assign. For another process, whose ids may equal those of the
// first, it is the next own id; gateways continue beyond its ids.
func offsetOf(ctx context.Context, r Settings, process string, last uint64) (offset uint64, err error) {
	c := counter{Next: firstID}
	err = r.EditSetting(ctx, actor, setting, &c, func() error {
		var known bool
		if offset, known = c.Offsets[process]; known {
			return nil
		}
		if c.Offsets == nil {
			c.Offsets = map[string]uint64{}
		}
		if len(c.Offsets) > 0 || last > firstID-room {
			offset = c.Next
			c.Next = offset + last + room
		}
		c.Offsets[process] = offset
		return nil
	})
	return offset, err
}

const (
	setting = "beanstalk"
	actor   = "gateway beanstalk"
)

// take returns an unused id.
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

// known returns the next id, if there is a block.
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

// refillEvery is the interval between attempts to refill the reserve. After a failure, puts get the last error without
// another query of the database.
const refillEvery = time.Second

// keepReserve keeps a block in reserve until ctx is done. A put that finds no block reports the last error.
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

// refill reserves a block if there is none.
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
	begin, err := i.takeBlock(ctx)
	if err != nil {
		if ctx.Err() == nil { // otherwise the client has disconnected
			i.err, i.failed = err, time.Now()
		}
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reserve = begin
	return nil
}

func (i *ids) takeBlock(ctx context.Context) (begin uint64, err error) {
	c := counter{Next: firstID}
	err = i.registry.EditSetting(ctx, actor, setting, &c, func() error {
		begin = c.Next
		c.Next += block
		return nil
	})
	return begin, err
}
