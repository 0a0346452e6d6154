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

// Wakeups returns a channel that receives a wake-up when there may be work, until ctx ends; it is never closed. Wakeups
// reconnects by itself and then sends WakeReconnect, since messages may have been missed. The receiver must keep
// receiving.
func (s *Shard) Wakeups(ctx context.Context) <-chan Wakeup {
	return s.wakeups(ctx, wakeChannel, wakeupOf)
}

// PullWakeups is Wakeups for processes that take jobs for workers: it sends WakePull and WakeReconnect.
func (s *Shard) PullWakeups(ctx context.Context) <-chan Wakeup {
	return s.wakeups(ctx, pullChannel, func(payload string) Wakeup { return Wakeup{Kind: WakePull, About: payload} })
}

// wakeups listens to the channel of each bucket and sends the wake-ups that read makes of the messages.
func (s *Shard) wakeups(
	ctx context.Context, channel func(bucket int) string, read func(payload string) Wakeup,
) <-chan Wakeup {
	out := make(chan Wakeup, 4*s.Buckets()+4)
	buckets := map[string]int{}
	var channels []string
	for b := range s.nodes {
		buckets[channel(b)] = b
		channels = append(channels, channel(b))
	}
	s.start(func() {
		s.listen(ctx, channels, func(ctx context.Context, m *redis.Message) {
			if m != nil && m.Payload == wakeOpened {
				s.reviveAll()
			}
			if m == nil || m.Payload == wakeOpened {
				send(ctx, out, Wakeup{Bucket: -1, Kind: WakeReconnect})
				return
			}
			w := read(m.Payload)
			w.Bucket = buckets[m.Channel]
			send(ctx, out, w)
		})
	})
	return out
}

// announcements calls announced when the registry changes, until the shard is closed, and sets the topics' limits
// whenever it connects, or a comparison begins or ends: the server may be another one, or have lost them.
func (s *Shard) announcements(announced func()) {
	first := true
	s.listen(s.ctx, []string{registryChannel}, func(ctx context.Context, m *redis.Message) {
		announced()
		if m != nil && m.Payload != wakeComparing && m.Payload != wakeOpened {
			return
		}
		if !first {
			s.forgetTopics()
		}
		first = false
		if err := s.peers.Resync(ctx, s); err != nil {
			s.log.Warn("setting the limits of topics failed", "error", err)
		}
	})
}

// listen passes on the messages of channels, and nil after each connect, until ctx ends or the shard is closed.
func (s *Shard) listen(ctx context.Context, channels []string, pass func(context.Context, *redis.Message)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for ctx.Err() == nil {
		s.listenOnce(ctx, channels, pass)
		select {
		case <-ctx.Done():
		case <-time.After(probeEvery):
		}
	}
}

// listenOnce returns when the connection ends.
func (s *Shard) listenOnce(ctx context.Context, channels []string, pass func(context.Context, *redis.Message)) {
	sub := s.client.Subscribe(ctx, channels...)
	defer func() { _ = sub.Close() }()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // a pending receive ignores ctx
	if _, err := sub.ReceiveTimeout(ctx, s.timeout); err != nil {
		return
	}
	pass(ctx, nil)
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
			pass(ctx, m)
		}
	}
}

// Payloads: a comparison of the bucket began, and the bucket was opened, see shards_compare.go.
const wakeComparing, wakeOpened = "C", "O"

func wakeupOf(payload string) Wakeup {
	switch payload {
	case wakeComparing:
		return Wakeup{Kind: WakeComparing}
	case "D":
		return Wakeup{Kind: WakeDispatcher}
	}
	var at, now int64 // see shared/wait.lua
	_, _ = fmt.Sscanf(payload, "T %d %d", &at, &now)
	w := Wakeup{Kind: WakeTimer, Event: millis(at)}
	w.Due = time.Now().Add(w.Event.Sub(micros(now)))
	return w
}

// listenTimeout is the silence after which the connection is pinged, since it may have broken unnoticed.
const listenTimeout = 30 * time.Second

func send(ctx context.Context, out chan<- Wakeup, w Wakeup) {
	select {
	case out <- w:
	case <-ctx.Done():
	}
}

// Announce tells the processes that listen to any shard (Options.Announced) that the registry changed.
func (q *Queue) Announce(ctx context.Context, revision int64) {
	for _, s := range *q.shards.Load() {
		if s.Up() {
			// only a hint: processes poll the revision anyway
			_ = s.client.Publish(ctx, registryChannel, revision).Err()
		}
	}
}

// Wakeup says that a bucket of a shard may have work of a kind.
type Wakeup struct {
	Bucket int
	Kind   WakeupKind
	About  string // of WakePull: the topics, separated by spaces
	// Of WakeTimer: when there is work, by Redis's clock, and counted from the arrival of the wake-up.
	Event, Due time.Time
}

// Topics returns the topics of WakePull.
func (w Wakeup) Topics() []string { return strings.Fields(w.About) }

// WakeupKind says whom a wake-up is for.
type WakeupKind uint8

// The kinds of wake-ups.
const (
	WakeTimer      WakeupKind = iota // an event before all others was stored
	WakeDispatcher                   // a job became ready while a dispatcher waited
	WakeReconnect                    // messages may have been missed: check everything
	WakePull                         // pull topics that workers wait for may have jobs
	WakeComparing                    // a comparison with the hosts' journals began, see shards_compare.go
)
