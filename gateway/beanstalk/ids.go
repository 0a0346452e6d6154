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
	unused  bool       // no id had been assigned when the registry was last asked
	err     error      // the last failure
	failed  time.Time
}

// counter is the setting that stores the next block.
type counter struct {
	Next    uint64          `json:"next"`
	Imports map[string]span `json:"imports,omitempty"` // by imported process
}

// span is a range of ids that an import uses: those that a beanstalkd process assigns, up to Last, plus Offset.
type span struct {
	Offset uint64 `json:"offset"`
	Last   uint64 `json:"last"`
}

// firstID is the first id, as in beanstalkd: some clients store ids in 32 bits.
const firstID = 1

// room is how many more ids an imported process may assign before its import has to allocate others.
const room = 100_000_000

// spanOf allocates the ids of a beanstalkd process, given its last id. Gateways continue beyond them. The offset is 0
// if no id has been assigned yet; otherwise the process's ids may be in use.
func spanOf(ctx context.Context, r Settings, process string, last uint64) (s span, err error) {
	c := counter{Next: firstID}
	err = r.EditSetting(ctx, actor, setting, &c, func() error {
		if s = c.Imports[process]; last <= s.Last {
			return nil
		}
		if c.Imports == nil {
			c.Imports = map[string]span{}
		}
		s = span{Offset: c.Next - firstID, Last: last + room}
		c.Imports[process], c.Next = s, s.Offset+s.Last+1
		return nil
	})
	return s, err
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
		if err := i.refill(ctx, true); err != nil {
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

// keepReserve keeps a block in reserve until ctx is done. A put that finds no block reports the last error. Before the
// first id is assigned, by any gateway, it takes none, so that an import can keep the ids of its jobs.
func (i *ids) keepReserve(ctx context.Context) {
	tick := time.NewTicker(refillEvery)
	defer tick.Stop()
	for {
		_ = i.refill(ctx, false)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// refill reserves a block if there is none. first allows the very first id to be taken.
func (i *ids) refill(ctx context.Context, first bool) error {
	i.filling.Lock()
	defer i.filling.Unlock()
	i.mu.Lock()
	full := i.reserve != 0
	i.mu.Unlock()
	if full || i.unused && !first {
		return nil
	}
	if time.Since(i.failed) < refillEvery {
		return i.err
	}
	begin, err := i.takeBlock(ctx, first)
	if err != nil {
		if ctx.Err() == nil { // otherwise the client has disconnected
			i.err, i.failed = err, time.Now()
		}
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reserve, i.unused = begin, begin == 0
	return nil
}

// takeBlock returns the first id of a new block, or 0 if no id has been assigned yet and first is not set.
func (i *ids) takeBlock(ctx context.Context, first bool) (begin uint64, err error) {
	c := counter{Next: firstID}
	err = i.registry.EditSetting(ctx, actor, setting, &c, func() error {
		if first || c.Next > firstID {
			begin = c.Next
			c.Next += block
		}
		return nil
	})
	return begin, err
}
