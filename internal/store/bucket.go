package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/batch"
	"github.com/wakecall/wakecall/internal/pause"
)

// Bucket is a part of a shard's jobs, on one server, and the unit of failure: one that is down, hangs or is being
// compared holds up itself alone. All jobs of a topic in a shard are in one bucket. Its methods may be called from any
// goroutine.
type Bucket struct {
	shard    *Shard
	n        int
	prefix   string                         // of its keys
	checked  atomic.Bool                    // its data may be used, see identity.go
	same     atomic.Pointer[SameRedisError] // its data was found to be another shard's
	down     atomic.Bool
	behind   atomic.Int64 // see catchUp
	caughtUp atomic.Int64
	current  atomic.Bool // it has what was set in other shards while this process could not call it
	catching sync.Mutex
	probing  atomic.Bool
	proven   atomic.Bool  // it has answered a script since began
	began    atomic.Int64 // Unix ms
	since    atomic.Int64 // when it went down, Unix ms
	logged   atomic.Bool  // that it is down
	clock    atomic.Pointer[clockReading]
	why      atomic.Value // error
	pushes   [durabilities]*batch.Batcher[[]Push, []Result]
	takes    *batch.Batcher[takeCall, Taken]
	lost     atomic.Int32 // answers of takes that are being recovered
	ends     *batch.Batcher[[]End, []Ended]

	accepted   func([]Push, []Result) error // see Options
	rechecking atomic.Int64                 // pushes whose fate is not known, see recheck.go

	// listening ends when the bucket goes down: those that listen to it connect anew, perhaps to another server.
	listening atomic.Pointer[listening]
}

func newBucket(s *Shard, n int, o Options) *Bucket {
	b := &Bucket{shard: s, n: n, prefix: Prefix(n), accepted: o.Accepted}
	b.listening.Store(s.newListening())
	b.Behind()
	for d := range b.pushes {
		b.pushes[d] = b.newPushes(Durability(d), o)
	}
	b.takes, b.ends = b.newTakes(), b.newEnds(o)
	return b
}

// Shard returns the shard that has the bucket.
func (b *Bucket) Shard() *Shard { return b.shard }

// Name returns the name of its shard.
func (b *Bucket) Name() string { return b.shard.name }

// Number returns the bucket's number in its shard, from 0.
func (b *Bucket) Number() int { return b.n }

// Key returns the key of a name in the bucket, see Prefix.
func (b *Bucket) Key(name string) string { return b.prefix + name }

// ReasonComparing is the reason for a bucket that waits to be compared with the hosts' journals.
const ReasonComparing = "comparing"

// reason returns why the bucket is down.
func (b *Bucket) reason() string {
	if why, _ := b.why.Load().(error); redis.HasErrorPrefix(why, "NOTCOMPARED") {
		return ReasonComparing
	}
	return "down"
}

// IsDown reports whether the bucket did not answer when this process last called it, or is being compared.
func (b *Bucket) IsDown() bool { return b.down.Load() }

// markDown makes calls to a bucket that does not answer fail at once, until a probe gets an answer.
func (b *Bucket) markDown(err error) {
	b.why.Store(fmt.Errorf("%w", err)) // one concrete type, as atomic.Value requires
	if b.down.Swap(true) {
		return
	}
	b.since.Store(time.Now().UnixMilli())
	if b.logged.Store(b.reason() != ReasonComparing); b.logged.Load() {
		b.shard.log.Warn("shard does not answer", "bucket", b.n, "error", err)
		b.listening.Swap(b.shard.newListening()).end()
	}
	if b.probing.Swap(true) {
		return
	}
	if !b.shard.Start(b.probe) {
		b.probing.Store(false)
	}
}

const probeEvery = 100 * time.Millisecond

// longComparison is how long a comparison takes that is logged: at most starts, there is nothing to compare.
const longComparison = 5 * time.Second

// probe writes to a bucket that is down until it accepts that.
func (b *Bucket) probe() {
	b.shard.retry(probeEvery, func() (done bool) {
		if b.revive(); b.down.Load() {
			return false
		}
		b.probing.Store(false)
		return !b.down.Load() || b.probing.Swap(true) // a call that failed meanwhile found this probe, or started one
	})
}

// revive probes a bucket if it is down.
func (b *Bucket) revive() {
	if !b.down.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(b.shard.ctx, b.shard.timeout)
	defer cancel()
	err := b.check(ctx)
	if err == nil {
		_, err = b.SendOnly(ctx, probeScript, "")
	}
	if err == nil || reasonOf(err) == "full" {
		b.current.Store(false)
		b.Behind()
		err = b.catchUp(b.shard.ctx) // however long that takes: each call of a script has its time limit
	}
	if err != nil {
		b.why.Store(fmt.Errorf("%w", err))
		long := time.Since(time.UnixMilli(b.since.Load())) > longComparison
		if long && b.reason() == ReasonComparing && !b.logged.Swap(true) {
			b.shard.log.Info("shard is being compared with the journals", "bucket", b.n)
		}
		return
	}
	said := "shard answers again"
	if b.reason() == ReasonComparing {
		said = "shard was compared with the journals; jobs go on"
	}
	b.proven.Store(true)
	b.down.Store(false)
	b.tellOthers()
	if b.logged.Load() {
		b.shard.log.Info(said, "bucket", b.n)
	}
}

// Behind makes the bucket catch up before this process calls it again.
func (b *Bucket) Behind() { b.behind.Add(1) }

// tellOthers makes the buckets of other shards catch up with this shard, which may hold something for them.
func (b *Bucket) tellOthers() {
	if b.n == 0 && b.shard.peers.Behind != nil {
		b.shard.peers.Behind(b.shard)
	}
}

// catchUpAgain is how long after a shard did not answer in time the others try again to catch up with it.
const catchUpAgain = time.Second

// catchUp has the queue carry out what other shards hold for the bucket, before this process calls it.
func (b *Bucket) catchUp(ctx context.Context) error {
	if b.caughtUp.Load() == b.behind.Load() || b.shard.peers.CatchUp == nil {
		return nil
	}
	b.catching.Lock()
	defer b.catching.Unlock()
	behind := b.behind.Load()
	if b.caughtUp.Load() == behind {
		return nil
	}
	all, err := b.shard.peers.CatchUp(ctx, b, !b.current.Load())
	if err != nil {
		return err
	}
	b.caughtUp.Store(behind)
	if all {
		b.current.Store(true)
		return nil
	}
	b.shard.Start(func() {
		if pause.For(b.shard.ctx, catchUpAgain) {
			b.Behind()
		}
	})
	return nil
}

// provenFor is how long an answer proves that a server takes pushes.
const provenFor = time.Second

func (b *Bucket) provenLately() bool {
	now := time.Now().UnixMilli()
	if began := b.began.Load(); now-began > provenFor.Milliseconds() && b.began.CompareAndSwap(began, now) {
		b.proven.Store(false)
	}
	return b.proven.Load()
}

func (b *Bucket) prove() error {
	ctx, cancel := context.WithTimeout(b.shard.ctx, b.shard.timeout)
	defer cancel()
	if _, err := b.Call(ctx, probeScript, ""); err != nil && reasonOf(err) != "full" {
		return err
	}
	b.proven.Store(true)
	return nil
}

// Unusable returns the error of a call to a bucket that is down; nil if it is up.
func (b *Bucket) Unusable() error {
	if !b.down.Load() {
		return nil
	}
	return b.Unavailable(b.reason(), b.why.Load().(error))
}
