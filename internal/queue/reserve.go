package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Reserve asks for ready jobs.
type Reserve struct {
	Worker string // names the dispatcher, which sends one Reserve at a time to a bucket
	Token  string // unique to this call
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
}

// ReserveLimit is the most jobs of one Reserve, so that no script blocks Redis for long.
const ReserveLimit = 128

// LeaseGrace is added to every lease, for the settling of a call that used all of its TTR.
const LeaseGrace = time.Second

// StartWindow is how long after Reserve (or Extend) was sent a callback may be started without calling Extend first.
// Delete of a running job waits until it has passed, so no callback starts after its answer.
const StartWindow = 250 * time.Millisecond

// Reserved is the answer to Reserve.
type Reserved struct {
	Now  time.Time // Redis's clock in the script
	Jobs []*Lease
	More bool // there may be more jobs, after empty places of removed ones
}

// Lease is a reserved job. Job.Attempts is the number of attempts before this one. Job.Revision is set once the job was
// settled as dead: the revision of its death.
type Lease struct {
	Job
	Token       string
	Reservation int64 // revision of the Reserve: a change with a lower one is part of this call, or older
	ref         int64
	hasKeys     bool // it has attempts or a body key to remove
}

// Reserve takes ready jobs of a bucket under leases. After an error jobs may have been reserved: the same request with
// Again returns them.
func (s *Shard) Reserve(ctx context.Context, bucket int, r Reserve) (Reserved, error) {
	v, err := s.run(ctx, bucket, "reserve", r.args()...)
	if err != nil {
		return Reserved{}, err
	}
	return s.reserved(v, r.Token)
}

// The lengths of the head of reserve.lua's answer, and of each job in it.
const (
	reservedHead = 3
	reservedJob  = 6
)

// reserved decodes the answer of reserve.lua.
func (s *Shard) reserved(v any, token string) (Reserved, error) {
	reply, ok := v.([]any)
	if !ok || len(reply) < reservedHead || (len(reply)-reservedHead)%reservedJob != 0 {
		return Reserved{}, fmt.Errorf("reserve from %s: %w", s.name, errReply)
	}
	out := Reserved{Now: millis(reply[0]), More: reply[1] == int64(1)}
	revision, _ := reply[2].(int64)
	token += ":" + strconv.FormatInt(revision, 10)
	for job := range slices.Chunk(reply[reservedHead:], reservedJob) {
		l, err := s.leased(job, token)
		if err != nil {
			s.log.Error("a reserved job cannot be read; it dies when enough leases have expired", "error", err)
			continue
		}
		l.Reservation = revision
		out.Jobs = append(out.Jobs, l)
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
		LeaseGrace.Milliseconds(), again)
	for topic, n := range r.Busy {
		args = append(args, topic, n)
	}
	return args
}

// leased decodes one job in the answer of reserve.lua.
func (s *Shard) leased(v []any, token string) (*Lease, error) {
	topic, _ := v[0].(string)
	ref, _ := v[2].(string)
	record, _ := v[3].(string)
	body, _ := v[4].(string)
	attempts, _ := v[5].(string)
	l := &Lease{Job: Job{Topic: topic, Shard: s.name, State: Running, LeaseUntil: millis(v[1])}, Token: token}
	l.ref, _ = strconv.ParseInt(ref, 10, 64) // 0 is no job's
	if err := decodeRecord(&l.Job, record, body); err != nil {
		return nil, fmt.Errorf("reserve a job of %s: %w", topic, err)
	}
	if err := decodeAttempts(&l.Job, attempts); err != nil {
		return nil, fmt.Errorf("reserve %s/%s: %w", topic, l.ID, err)
	}
	l.hasKeys = attempts != "" || len(l.Body) > longBody
	return l, nil
}

// Extend makes leases end d plus LeaseGrace from now. held reports for each whether it was still held.
func (s *Shard) Extend(ctx context.Context, bucket int, leases []*Lease, d time.Duration) (held []bool, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 1+2*len(leases))
	args = append(args, (d + LeaseGrace).Milliseconds())
	for _, l := range leases {
		args = append(args, l.ref, l.Token)
	}
	reply, err := s.list(ctx, bucket, len(leases), "extend", args...)
	if err != nil {
		return nil, err
	}
	held = make([]bool, len(leases))
	for i := range reply {
		held[i] = reply[i] == int64(1)
	}
	return held, nil
}
