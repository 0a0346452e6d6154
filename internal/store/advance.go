package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Advance is the result of one call of Bucket.Advance.
type Advance struct {
	Now     time.Time // Redis's clock in the script
	Next    time.Time // when the next job, lease or topic needs Advance; zero for none
	Woken   int       // topics with due jobs that got a turn, by priority
	Expired int       // expired leases; their jobs are ready again, or dead
	More    bool      // the step was bounded and left work: call again at once
}

// The most topics that one Advance looks at, and the most ids that it moves.
const (
	advanceTopics = 100
	advanceStep   = 500
)

// The lengths of the head of wake.lua's answer, and of each expired lease or job in it.
const (
	wakeHead   = 3
	wakeFields = 4
)

// Advance gives topics with due jobs their turns, and ends leases and jobs that have expired, one bounded
// step at a time.
func (b *Bucket) Advance(ctx context.Context) (Advance, error) { return b.advance(ctx, wakeScript) }

func (b *Bucket) advance(ctx context.Context, script *Script, clock ...any) (Advance, error) {
	reply, err := b.CallList(ctx, -1, script, append([]any{advanceTopics, advanceStep}, clock...)...)
	if err != nil {
		return Advance{}, err
	}
	if len(reply) < wakeHead || (len(reply)-wakeHead)%wakeFields != 0 {
		return Advance{}, fmt.Errorf("advance %s: %w", b.shard.name, ErrReply)
	}
	n := Ints(reply[:wakeHead])
	a := Advance{Now: micros(reply[0]), Woken: int(n[2])}
	if n[1] >= 0 {
		a.Next = time.UnixMicro(n[1]).UTC()
		a.More = !a.Next.After(a.Now)
	}
	a.Expired, err = b.lapse(ctx, a.Now, reply[wakeHead:])
	return a, err
}

var delayedOrReady = []State{Delayed, Ready}

// lapse ends what has expired: a lease as a failed attempt, a waiting job as expired.
func (b *Bucket) lapse(ctx context.Context, now time.Time, expired []any) (leases int, err error) {
	var list []End
	for v := range slices.Chunk(expired, wakeFields) {
		e := End{Ref: Ref{Text(v[0]), Text(v[1])}, In: delayedOrReady, Verb: Expire}
		if token := Text(v[2]); token != "" {
			e.Lease = &Lease{Ref: e.Ref, Token: token, Attempt: int(Integer(v[3])) + 1}
			e.Verb, e.Reason = lapse, "lease"
			e.Attempt = &Attempt{StartedAt: now.UnixMilli(), Error: expiredError}
			leases++
		}
		list = append(list, e)
	}
	for some := range slices.Chunk(list, EndLimit) {
		if _, err := b.End(ctx, some); err != nil {
			return leases, err
		}
	}
	return leases, nil
}

// NextEvent returns Advance.Next, zero for none, as it is now. It takes one plain command.
func (b *Bucket) NextEvent(ctx context.Context) (time.Time, error) {
	first, err := b.shard.client.ZRangeWithScores(ctx, b.Key("next"), 0, 0).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("poll shard %s: %w", b.shard.name, err)
	}
	if len(first) == 0 {
		return time.Time{}, nil
	}
	return time.UnixMicro(int64(math.Round(first[0].Score * 1000))).UTC(), nil
}

// NothingReady reports whether Reserve would find no job now and the next ready job wakes the dispatchers.
// Only Reserve requests that wake-up (the key idle). It takes one plain command: EXISTS counts a key each time it is
// named, so the count is four only if idle exists and no q does.
func (b *Bucket) NothingReady(ctx context.Context) (bool, error) {
	q, idle := b.Key("q:"), b.Key("idle")
	n, err := b.shard.client.Exists(ctx, q+"high", q+"normal", q+"low", idle, idle, idle, idle).Result()
	if err != nil {
		return false, fmt.Errorf("poll shard %s: %w", b.shard.name, err)
	}
	return n == 4, nil
}

// Wakeup says that a bucket of a shard may have work of a kind.
type Wakeup struct {
	Kind  WakeupKind
	About string // of WakePull: the topics, separated by spaces; of WakeEnded: TOPIC/ID
	// Of WakeTimer, by Redis's clock: when there is work, and when the wake-up was sent.
	Event, Sent time.Time
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
	WakeEnded                        // a job that somebody waits for ended, or is gone
	WakeComparing                    // a comparison with the hosts' journals began, see reconcile/compare.go
)

// Payloads: a comparison of the bucket began, and the bucket was opened, see reconcile/compare.go.
// The bucket holds something for another shard, see Peers.CatchUp.
const wakeComparing, wakeOpened, wakePending = "C", "O", "P"

func wakeupOf(payload string) Wakeup {
	switch payload {
	case wakeComparing:
		return Wakeup{Kind: WakeComparing}
	case "D":
		return Wakeup{Kind: WakeDispatcher}
	}
	var at, now int64 // see shared/wait.lua; zero in a message of another version: the event is now
	_, _ = fmt.Sscanf(payload, "E %d %d", &at, &now)
	return Wakeup{Kind: WakeTimer, Event: micros(at), Sent: micros(now)}
}
