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
