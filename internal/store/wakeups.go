package store

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Wakeups returns a channel that receives a wake-up when there may be work in the bucket, until ctx ends; it is never
// closed. Wakeups reconnects by itself and then sends WakeReconnect, since messages may have been missed. The receiver
// must keep receiving. Each bucket has a connection of its own, to its own server: a server that hangs passes on no
// message, not even those of the others.
func (b *Bucket) Wakeups(ctx context.Context) <-chan Wakeup {
	return b.wakeups(ctx, b.Key("wake"), wakeupOf)
}

// PullWakeups is Wakeups for processes that take jobs for workers: it sends WakePull and WakeReconnect.
func (b *Bucket) PullWakeups(ctx context.Context) <-chan Wakeup {
	return b.wakeups(ctx, b.Key("pull"), func(payload string) Wakeup {
		return Wakeup{Kind: WakePull, About: payload}
	})
}

// EndedJobs is Wakeups for processes that wait for jobs: it sends WakeEnded, about a job, and WakeReconnect.
func (b *Bucket) EndedJobs(ctx context.Context) <-chan Wakeup {
	return b.wakeups(ctx, b.Key("ended"), func(payload string) Wakeup {
		return Wakeup{Kind: WakeEnded, About: payload}
	})
}

// wakeups listens to a channel and sends the wake-ups that read makes of the messages.
func (b *Bucket) wakeups(ctx context.Context, channel string, read func(payload string) Wakeup) <-chan Wakeup {
	out := make(chan Wakeup, 8)
	b.shard.Start(func() {
		listening := func() context.Context { return b.listening.Load().ctx }
		b.shard.listen(ctx, channel, listening, func(ctx context.Context, m *redis.Message) {
			if m != nil && m.Payload == wakeOpened {
				b.revive()
			}
			if m == nil || m.Payload == wakePending {
				b.tellOthers()
			}
			if m == nil || m.Payload == wakeOpened {
				send(ctx, out, Wakeup{Kind: WakeReconnect})
				return
			}
			if m.Payload != wakePending {
				send(ctx, out, read(m.Payload))
			}
		})
	})
	return out
}

// listening is the time in which connections that listen to a bucket are kept.
type listening struct {
	ctx context.Context
	end context.CancelFunc
}

func (s *Shard) newListening() *listening {
	ctx, cancel := context.WithCancel(s.ctx)
	return &listening{ctx, cancel}
}

// Announcements calls announced when the registry changes, until the shard is closed, and sets the topics' limits
// whenever it connects, or a comparison begins or ends: the server may be another one, or have lost them.
func (s *Shard) Announcements(announced func()) {
	first := true
	always := func() context.Context { return s.ctx }
	s.listen(s.ctx, RegistryChannel, always, func(ctx context.Context, m *redis.Message) {
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

// listen passes on the messages of a channel, and nil after each connect, until ctx ends or the shard is closed. It
// connects anew when the context that listening returned ends.
func (s *Shard) listen(
	ctx context.Context, channel string, listening func() context.Context, pass func(context.Context, *redis.Message),
) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for ctx.Err() == nil {
		once, end := context.WithCancel(ctx)
		stop := context.AfterFunc(listening(), end)
		s.listenOnce(once, channel, pass)
		stop()
		end()
		select {
		case <-ctx.Done():
		case <-time.After(probeEvery):
		}
	}
}

// listenOnce returns when the connection ends.
func (s *Shard) listenOnce(ctx context.Context, channel string, pass func(context.Context, *redis.Message)) {
	sub := s.client.Subscribe(ctx, channel)
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

// listenTimeout is the silence after which the connection is pinged, since it may have broken unnoticed. Each bucket
// has several connections.
const listenTimeout = time.Minute

func send(ctx context.Context, out chan<- Wakeup, w Wakeup) {
	select {
	case out <- w:
	case <-ctx.Done():
	}
}
