package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// When a server was suspended, or the network held packets back, a script may begin long after its caller gave up. By
// then the job may have been pushed to another shard, or a request that was refused with 503 may have been repeated and
// followed by others: a late push would leave a second copy that no journal knows, a late deletion would remove a job
// that was pushed since, a late reservation would lease jobs that nobody calls, late settings would replace newer ones.
// So these scripts get a deadline, by the clock of the server that runs them, after which they do nothing. The rest of
// the timeout is left for the reply. A script that refuses answers its server's time. Scripts that end a lease need no
// deadline: they name the token of the lease.

const (
	tooLate  = "TOOLATE "
	clockFor = time.Minute // for how long a clock reading is used; clocks drift by milliseconds meanwhile
)

// clockReading is a reading of the clock of a bucket's server, and the times of this process before and after it.
type clockReading struct {
	server int64 // ms
	at     time.Time
}

// earliest returns a bound of the server's clock at a time of this process, in ms.
func (c *clockReading) earliest(t time.Time) int64 { return c.server + t.Sub(c.at).Milliseconds() }

// until returns the deadline for a script to begin, in ms by the server's clock; 0 while that is not known.
func (b *Bucket) until(ctx context.Context, patience time.Duration) int64 {
	if b.shard.standing != nil {
		return 1 << 52 // any time may have been jumped over
	}
	clock, now := b.clock.Load(), time.Now()
	if clock == nil || now.Sub(clock.at) > clockFor {
		return 0
	}
	if d, ok := ctx.Deadline(); ok {
		patience = min(patience, d.Sub(now))
	}
	return clock.earliest(now.Add(patience * 3 / 4))
}

// Clock is a reading of the clock of a bucket's server. At a time t of this process it shows at least Now and what has
// passed since the answer, and at most Now and what has passed since the request.
type Clock struct {
	Now, asked, answered time.Time
	stands               bool // it shows Now until it is moved
}

// Answered returns when this process got the reading; zero: never.
func (c Clock) Answered() time.Time { return c.answered }

// Least returns the earliest time that the server may show at t.
func (c Clock) Least(t time.Time) time.Time {
	if c.stands {
		return c.Now
	}
	return c.Now.Add(t.Sub(c.answered))
}

// Most returns the latest time that the server may show at t.
func (c Clock) Most(t time.Time) time.Time {
	if c.stands {
		return c.Now
	}
	return c.Now.Add(t.Sub(c.asked))
}

// clockAt returns the reading of an answer to a request that was sent at a time.
func (b *Bucket) clockAt(now, asked time.Time) Clock {
	return Clock{now, asked, time.Now(), b.shard.standing != nil}
}

// Clock reads the clock of the bucket's server. On a Cluster, a command without a key goes to any node.
func (b *Bucket) Clock(ctx context.Context) (Clock, error) {
	if b.shard.standing != nil {
		return b.clockAt(b.shard.standing(), time.Now()), nil
	}
	if err := b.Unusable(); err != nil {
		return Clock{}, err
	}
	asked := time.Now()
	now, err := b.readClock(ctx)
	if err != nil {
		return Clock{}, b.Failed(ctx, asked, err)
	}
	return b.clockAt(now, asked), nil
}

func (b *Bucket) readClock(ctx context.Context) (time.Time, error) {
	cluster, ok := b.shard.client.(*redis.ClusterClient)
	if !ok {
		return b.shard.client.Time(ctx).Result()
	}
	node, err := cluster.MasterForKey(ctx, b.Key(""))
	if err != nil {
		return time.Time{}, err
	}
	return node.Time(ctx).Result()
}
