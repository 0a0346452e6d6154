package queue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// advanceStep is how many jobs one Advance moves at most.
const advanceStep = 500

// Advance moves what is due in a bucket: delayed jobs to the ready queues, expired leases back. It does a bounded step.
func (s *Shard) Advance(ctx context.Context, bucket int) (Advance, error) {
	v, err := s.again(ctx, bucket, s.scripts.advance, advanceStep)
	if err != nil {
		return Advance{}, err
	}
	reply, ok := v.([]any)
	if !ok || len(reply) != 6 {
		return Advance{}, fmt.Errorf("advance %s: %w", s.name, errReply)
	}
	var n [6]int64
	for i := range n {
		n[i], _ = reply[i].(int64)
	}
	a := Advance{Now: millis(n[0]).Add(time.Duration(n[5]) * time.Microsecond), Moved: int(n[2]), Expired: int(n[3]), More: n[4] != 0}
	if n[1] >= 0 {
		a.Next = millis(n[1])
	}
	return a, nil
}

// Nothing says that Advance would find nothing in a bucket, now or later: no job waits for its time, no lease runs, no topic is parked. It is one
// plain command, where Advance takes five.
func (s *Shard) Nothing(ctx context.Context, bucket int) (bool, error) {
	return s.none(ctx, bucket, "due", "lease", "park")
}

// NothingReady says that Reserve would find nothing in a bucket now. It is the look that Reserve begins with, as one plain command. But only Reserve
// leaves the note (idle) that makes the next job which becomes ready wake the dispatchers.
func (s *Shard) NothingReady(ctx context.Context, bucket int) (bool, error) {
	return s.none(ctx, bucket, "q:0", "q:1", "q:2")
}

func (s *Shard) none(ctx context.Context, bucket int, names ...string) (bool, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = prefix(bucket) + name
	}
	n, err := s.client.Exists(ctx, keys...).Result()
	if err != nil {
		return false, fmt.Errorf("look into shard %s: %w", s.name, err)
	}
	return n == 0, nil
}

// Reserve takes ready jobs of a bucket under leases. After an error the jobs may be reserved all the same: the same request with
// Again returns them.
func (s *Shard) Reserve(ctx context.Context, bucket int, r Reserve) (Reserved, error) {
	if s.held.Load() {
		return Reserved{}, s.comparing()
	}
	if r.LeaseCap <= 0 {
		r.LeaseCap = time.Hour
	}
	if r.TopicMax <= 0 {
		r.TopicMax = ReserveLimit
	}
	again := ""
	if r.Again {
		again = "1"
	}
	args := make([]any, 0, 8+2*len(r.Busy))
	args = append(args, r.Worker, r.Token, min(r.Max, ReserveLimit), r.Pattern, r.TopicMax, r.LeaseCap.Milliseconds(),
		LeaseGrace.Milliseconds(), again)
	for topic, n := range r.Busy {
		args = append(args, topic, n)
	}
	v, err := s.run(ctx, bucket, s.scripts.reserve, args...)
	if err != nil {
		return Reserved{}, err
	}
	if s.held.Load() { // by the connection that was made for this very call; Again returns the jobs
		return Reserved{}, s.comparing()
	}
	reply, ok := v.([]any)
	if !ok || len(reply) < reservedHead {
		return Reserved{}, fmt.Errorf("reserve from %s: %w", s.name, errReply)
	}
	found, ok := foundIn(reply)
	if !ok {
		return Reserved{}, fmt.Errorf("reserve from %s: %w", s.name, errReply)
	}
	if newer, _ := reply[2].([]any); len(newer) == 3 {
		s.tellNewer(newer)
	}
	out := Reserved{Now: millis(reply[0]), More: reply[1] == int64(1)}
	for i := range found {
		l, err := s.leased(&found[i], r.Token)
		if err != nil {
			s.log.Error("a reserved job cannot be read; it dies when its leases ran out often enough", "error", err)
			continue
		}
		out.Jobs = append(out.Jobs, l)
	}
	return out, nil
}

// tellNewerEvery is how often the log has one of the jobs that were put off.
const tellNewerEvery = time.Minute

// tellNewer logs that there are jobs which only a newer version can deliver.
func (s *Shard) tellNewer(f []any) {
	now, last := time.Now().UnixNano(), s.toldNewer.Load()
	if now-last < int64(tellNewerEvery) || !s.toldNewer.CompareAndSwap(last, now) {
		return
	}
	ref := refOf(f[0])
	topic, _ := f[1].(string)
	record, _ := f[2].(string)
	j := Job{Topic: topic}
	_ = decodeRecord(&j, ref, record, "") // the script has looked at it
	s.log.Error("jobs are not called, and put off", "shard", s.name, "one of them", topic+"/"+j.ID, "error", ErrNewer)
}

func (s *Shard) leased(f *found, token string) (*Lease, error) {
	l := &Lease{Job: Job{Topic: f.topic, Shard: s.name, State: Running, LeaseUntil: f.ends}, Token: token, ref: f.ref}
	if err := decodeRecord(&l.Job, f.ref, f.record, f.body); err != nil {
		return nil, fmt.Errorf("reserve a job of %s: %w", f.topic, err)
	}
	if err := decodeAttempts(&l.Job, f.attempts); err != nil {
		return nil, fmt.Errorf("reserve %s/%s: %w", f.topic, l.ID, err)
	}
	l.kept = f.attempts != "" || len(l.Body) > longBody
	return l, nil
}

// Settle ends leases, up to ReserveLimit at once. It tells for each whether it still was held; where not, nothing was done. The same call
// may be repeated after an error: what was done the first time then shows as not held.
func (s *Shard) Settle(ctx context.Context, bucket int, st []Settlement) ([]bool, error) {
	if len(st) == 0 {
		return nil, nil
	}
	order := endings(st)
	args, err := settleArgs(order, s.smallHashes(bucket))
	if err != nil {
		return nil, err
	}
	v, err := s.run(ctx, bucket, s.scripts.settle, args...)
	if err != nil {
		return nil, err
	}
	reply, _ := v.([]any)
	if len(reply) != 3 || !s.nodes[bucket].learn(reply[1]) {
		return nil, fmt.Errorf("settle on %s: %w", s.name, errReply)
	}
	held, ok := heldBut(reply[0], order)
	if !ok {
		return nil, fmt.Errorf("settle on %s: %w", s.name, errReply)
	}
	revision, _ := reply[2].(int64)
	for i := range order {
		if e := &order[i]; held[e.at] && (e.Verdict == Bury || e.Verdict == Expire) {
			e.Lease.Revision = revision
			revision++
		}
	}
	return held, nil
}

// ceilDelay is in ms, and never early.
func ceilDelay(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Extend makes leases end d plus LeaseGrace from now. held tells for each whether it still is one.
func (s *Shard) Extend(ctx context.Context, bucket int, leases []*Lease, d time.Duration) (held []bool, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 1+2*len(leases))
	args = append(args, (d + LeaseGrace).Milliseconds())
	for _, l := range leases {
		args = append(args, l.ref, l.Token)
	}
	v, err := s.again(ctx, bucket, s.scripts.extend, args...)
	if err != nil {
		return nil, err
	}
	return flags(v, len(leases), "extend on "+s.name)
}

func flags(v any, n int, what string) ([]bool, error) {
	reply, ok := v.([]any)
	if !ok || len(reply) != n {
		return nil, fmt.Errorf("%s: %w", what, errReply)
	}
	out := make([]bool, n)
	for i := range reply {
		out[i] = reply[i] == int64(1)
	}
	return out, nil
}

// Wakeups tells when there may be work, until ctx ends; the channel is never closed. It reconnects by itself and then sends
// WakeReconnect, since messages may have been missed. The receiver must keep receiving.
func (s *Shard) Wakeups(ctx context.Context) <-chan Wakeup {
	out := make(chan Wakeup, 4*s.Buckets()+4)
	s.start(func() {
		for ctx.Err() == nil && s.ctx.Err() == nil {
			s.listen(ctx, out)
			select {
			case <-ctx.Done():
			case <-s.ctx.Done():
			case <-time.After(probeEvery):
			}
		}
	})
	return out
}

// listen passes on messages until the connection ends.
func (s *Shard) listen(ctx context.Context, out chan<- Wakeup) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	buckets := map[string]int{}
	channels := []string{registryChannel}
	for b := range s.nodes {
		buckets[wakeChannel(b)] = b
		channels = append(channels, wakeChannel(b))
	}
	sub := s.client.Subscribe(ctx, channels...)
	defer func() { _ = sub.Close() }()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // a pending receive does not look at ctx
	if _, err := sub.ReceiveTimeout(ctx, time.Second); err != nil {
		return
	}
	s.forgetTopics()
	if err := s.resync(ctx, s); err != nil {
		s.log.Warn("topics' limits could not be set", "error", err)
	}
	send(ctx, out, Wakeup{Bucket: -1, Kind: WakeReconnect})
	for asked := false; ; {
		v, err := sub.ReceiveTimeout(ctx, listenTimeout)
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() && !asked {
			asked = true
			err = sub.Ping(ctx)
		} else {
			asked = false
		}
		if err != nil {
			return
		}
		if m, ok := v.(*redis.Message); ok {
			send(ctx, out, wakeupOf(m, buckets))
		}
	}
}

func wakeupOf(m *redis.Message, buckets map[string]int) Wakeup {
	b, ok := buckets[m.Channel]
	switch {
	case !ok:
		return Wakeup{Bucket: -1, Kind: WakeRegistry}
	case strings.HasPrefix(m.Payload, askPayload):
		return Wakeup{Bucket: b, Kind: WakeAsk, About: m.Payload[len(askPayload):]}
	case m.Payload == "D":
		return Wakeup{Bucket: b, Kind: WakeDispatcher}
	}
	return Wakeup{Bucket: b, Kind: WakeTimer}
}

// listenTimeout is the silence after which the connection is tried, should it have died unnoticed.
const listenTimeout = 15 * time.Second

func send(ctx context.Context, out chan<- Wakeup, w Wakeup) {
	select {
	case out <- w:
	case <-ctx.Done():
	}
}

// Announce tells the processes that listen to any shard that the registry changed.
func (q *Queue) Announce(ctx context.Context, revision int64) {
	for _, s := range *q.shards.Load() {
		if s.Up() {
			_ = s.client.Publish(ctx, registryChannel, revision).Err() // a hint: the revision is looked at anyway
		}
	}
}
