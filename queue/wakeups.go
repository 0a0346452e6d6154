package queue

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Wakeups sends when there may be work, until ctx ends; the channel is never closed. It reconnects by itself and then
// sends WakeReconnect, since messages may have been missed. The receiver must keep receiving.
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
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // a pending receive ignores ctx
	if _, err := sub.ReceiveTimeout(ctx, time.Second); err != nil {
		return
	}
	s.forgetTopics()
	if err := s.resync(ctx, s); err != nil {
		s.log.Warn("set the limits of topics", "error", err)
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

// listenTimeout is the silence after which the connection is pinged, should it have broken unnoticed.
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
			_ = s.client.Publish(ctx, registryChannel, revision).Err() // a hint: the revision is polled anyway
		}
	}
}

// Wakeup means that a bucket of a shard may have work of a kind.
type Wakeup struct {
	Bucket int
	Kind   WakeupKind
	About  string // of WakeAsk
}

// WakeupKind is whom a wake-up is for.
type WakeupKind uint8

// The kinds of wake-ups.
const (
	WakeTimer      WakeupKind = iota // an earlier due time was stored
	WakeDispatcher                   // a job became ready while a dispatcher waited
	WakeRegistry                     // the registry changed (Queue.Announce)
	WakeReconnect                    // messages may have been missed: check everything
	WakeAsk                          // a host asks the others what has ended (Shard.Ask)
)
