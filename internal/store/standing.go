package store

import (
	"context"
	"fmt"
	"time"
)

// An installation for tests has a clock that stands until it is moved, Options.StandingClock: the key clock of its
// bucket, in microseconds, from which all scripts take the time.

// StartClock sets the clock unless it was set before, and returns the time that it shows.
func (b *Bucket) StartClock(ctx context.Context, t time.Time) (time.Time, error) {
	client, key := b.shard.client, b.Key("clock")
	if err := client.SetNX(ctx, key, t.UnixMicro(), 0).Err(); err != nil {
		return t, fmt.Errorf("start the clock: %w", err)
	}
	at, err := client.Get(ctx, key).Int64()
	if err != nil {
		return t, fmt.Errorf("read the clock: %w", err)
	}
	return micros(at), nil
}

// AdvanceTo moves the clock of a bucket whose clock stands, and is Advance then. It stops at the first event. Unless
// passes is set, it does not move the clock while jobs are due or an event has come.
func (b *Bucket) AdvanceTo(ctx context.Context, t time.Time, passes bool) (Advance, error) {
	return b.advance(ctx, wakeAtScript, t.UnixMicro(), passes)
}

// standingGrace is added to the leases of ReserveFirst. The clock stands during a call, so a lease ends only when the
// process has died. The end of a lease is an event, at which the clock would stop although there is nothing to do.
const standingGrace = time.Hour

// ReserveFirst reserves the first due job that its topic's limits allow to be called: by due time, priority and push.
// It passes over some topics. If there is no other such job, next is the time of the next event; zero: there is none.
func (b *Bucket) ReserveFirst(
	ctx context.Context, token string, passed []string,
) (got Reserved, next time.Time, err error) {
	args := []any{token, standingGrace.Milliseconds()}
	for _, topic := range passed {
		args = append(args, topic)
	}
	o, err := b.Call(ctx, reserveFirstScript, args...)
	if err != nil {
		return got, next, err
	}
	reply := Values(o.Value)
	if len(reply) >= reservedHead && Integer(reply[2]) > 0 {
		next = micros(reply[2])
	}
	got, err = b.reserved(o.Value, token)
	return got, next, err
}
