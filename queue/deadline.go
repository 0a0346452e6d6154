package queue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server that stood still, and a network that held its packets, have a script begin long after its caller gave up.
// By then the job has been pushed to another shard, or what was refused with 503 has been repeated and is overtaken: a
// late push would leave a second copy that no journal knows, a late deletion would remove a job that was pushed since.
// So these scripts get a time, by the clock of the server that runs them, after which they do nothing. The rest of the
// caller's patience is for the answer. What ends a lease needs none: it names the token of the lease.

// timely are the scripts that do nothing when they begin late (lua/shared/deadline.lua).
var timely = []string{"push", "change", "delete", "dead", "drop", "restore", "takebyid", endByID}

// errTooLate is that a script began, or would have begun, when its caller had given up.
var errTooLate = errors.New("the shard answered too late")

const (
	tooLate  = "TOOLATE "
	clockFor = time.Minute // that a reading of a clock is used; meanwhile clocks drift by milliseconds
)

// clockReading is what the clock of a bucket's server said between two moments of this process.
type clockReading struct {
	server    int64 // ms
	asked, at time.Time
}

// earliest and latest are between what the clock may say at a time of this process, in ms.
func (c *clockReading) earliest(t time.Time) int64 { return c.server + t.Sub(c.at).Milliseconds() }
func (c *clockReading) latest(t time.Time) int64   { return c.server + t.Sub(c.asked).Milliseconds() + 1 }

// until is when a script may begin at the latest, in ms by the server's clock; 0 while that is not known.
func (b *bucketState) until(ctx context.Context, patience time.Duration) int64 {
	clock, now := b.clock.Load(), time.Now()
	if clock == nil || now.Sub(clock.at) > clockFor {
		return 0
	}
	if d, ok := ctx.Deadline(); ok {
		patience = min(patience, d.Sub(now))
	}
	return clock.earliest(now.Add(patience * 3 / 4))
}

// inTime makes a call of a script, with its deadline. A script that refuses tells its server's time, so the first call
// of all, and that behind a jump of the clock, are made again.
func (s *Shard) inTime(ctx context.Context, bucket int, script string, args []any, call func(args []any) error) error {
	if !slices.Contains(timely, script) {
		return call(args)
	}
	n := s.nodes[bucket]
	for try := 1; ; try++ {
		asked := time.Now()
		err := call(append(args, n.until(ctx, s.timeout)))
		if !redis.HasErrorPrefix(err, tooLate) {
			return err
		}
		server, _ := strconv.ParseInt(strings.TrimPrefix(err.Error(), tooLate), 10, 64)
		n.clock.Store(&clockReading{server, asked, time.Now()})
		if try == 3 {
			return errTooLate
		}
	}
}
