package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Reserve asks for ready jobs.
type Reserve struct {
	Worker string // names the dispatcher, which sends one Reserve at a time to a bucket
	Token  string // unique to this call, without spaces
	Again  bool   // the call repeats one whose answer was lost: it returns the same jobs
	Max    int    // at most ReserveLimit
	// Pattern is the order in which priorities are served, one digit for each job ("0102010201" is 5:3:2). The position
	// is stored in Redis, so the order holds over all dispatchers.
	Pattern string
	// TopicMax bounds the jobs of any one topic in this call, and Busy those of single topics (0: none now), so that
	// one slow topic cannot take every place of a dispatcher.
	TopicMax int
	Busy     map[string]int
	// LeaseCap bounds the first lease: it lasts min(TTR, LeaseCap) plus LeaseGrace, and Extend prolongs it.
	LeaseCap time.Duration
	// Slack is added to LeaseGrace: what a slow Redis takes to answer, and to receive the outcome.
	Slack time.Duration
}

// ReserveLimit is the most jobs of one Reserve, so that no script blocks Redis for long.
const ReserveLimit = 128

// LeaseGrace is added to every lease, for the settling of a call that used all of its TTR.
const LeaseGrace = time.Second

// Reserved is the answer to Reserve.
type Reserved struct {
	Now  time.Time // Redis's clock in the script
	Jobs []*Job
	More bool // it stopped at topics whose jobs are gone, and there may be more
}

// Reserve takes ready jobs under leases. After an error jobs may have been reserved: the same request with
// Again returns them.
func (b *Bucket) Reserve(ctx context.Context, r Reserve) (Reserved, error) {
	o, err := b.Call(ctx, reserveScript, r.args()...)
	if err != nil {
		return Reserved{}, err
	}
	return b.reserved(o.Value, r.Token)
}

// The lengths of the head of reserve.lua's answer, and of each job in it.
const (
	reservedHead = 3
	reservedJob  = 6
)

// reserved decodes the answer of reserve.lua.
func (b *Bucket) reserved(v any, token string) (Reserved, error) {
	reply, ok := v.([]any)
	if !ok || len(reply) < reservedHead || (len(reply)-reservedHead)%reservedJob != 0 {
		return Reserved{}, fmt.Errorf("reserve from %s: %w", b.shard.name, ErrReply)
	}
	out := Reserved{Now: micros(reply[0]), More: reply[2] == int64(1)}
	for job := range slices.Chunk(reply[reservedHead:], reservedJob) {
		if l := b.leased(job, token, out.Now); l != nil {
			out.Jobs = append(out.Jobs, l)
		}
	}
	return out, nil
}

func (r *Reserve) args() []any {
	leaseCap, topicMax, again := r.LeaseCap, r.TopicMax, ""
	if leaseCap <= 0 {
		leaseCap = time.Hour
	}
	if topicMax <= 0 {
		topicMax = ReserveLimit
	}
	if r.Again {
		again = "1"
	}
	args := make([]any, 0, 8+2*len(r.Busy))
	args = append(args, r.Worker, r.Token, min(r.Max, ReserveLimit), r.Pattern, topicMax, leaseCap.Milliseconds(),
		(LeaseGrace + r.Slack).Milliseconds(), again)
	for topic, n := range r.Busy {
		args = append(args, topic, n)
	}
	return args
}

// leased decodes one job in the answer of reserve.lua; nil if it cannot be read: it becomes dead after max_attempts
// lease expirations.
func (b *Bucket) leased(v []any, token string, now time.Time) *Job {
	d := description{Text(v[1]), Text(v[2]), Text(v[4]), v[3], v[5]}
	job, err := b.jobOf(Text(v[0]), &d, now)
	if err != nil {
		b.shard.log.Error("a reserved job cannot be read", "error", err)
		return nil
	}
	job.Lease = &Lease{Ref{job.Topic, job.ID}, job.Shard, token, now.Truncate(time.Millisecond), job.Attempts + 1}
	return job
}
