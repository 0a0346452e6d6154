package queue

import (
	"slices"
	"time"
)

// Modes of a job in a call of the push script, beside what to do about an id that lives in the two lowest bits.
const (
	modeInstant = 1 << 2 // the time is an instant, not a delay
	modePlace   = 1 << 3 // the id names a place, see placed.go
)

// appendPushes adds pushes of a bucket as push.lua reads them.
func appendPushes(args []any, pushes []Push, small smallHashes) []any {
	args = append(slices.Grow(args, len(pushes)+8), small.splits)
	b := make([]byte, 0, roomFor(pushes)) // of all jobs, one behind the other
	for len(pushes) > 0 {
		n := 1
		for n < len(pushes) && pushes[n].Topic == pushes[0].Topic {
			n++
		}
		args = append(args, pushes[0].Topic, n)
		for i := range pushes[:n] {
			args, b = appendPush(args, b, small, &pushes[i])
		}
		pushes = pushes[n:]
	}
	return args
}

// roomFor is about how long the pushes are as arguments.
func roomFor(pushes []Push) (n int) {
	for i := range pushes {
		n += 96 + len(pushes[i].ID) + min(len(pushes[i].Body), longBody)
	}
	return n
}

// appendPush appends a job to b, and to args what it appended there.
func appendPush(args []any, b []byte, small smallHashes, p *Push) ([]any, []byte) {
	start := len(b)
	mode := byte(p.OnDuplicate)
	at, instant := askedTime(p)
	if instant {
		mode |= modeInstant
	}
	b = append(appendUint48(append(b, 0), at), 0)
	l := locate(p.Topic, p.ID, small.locators)
	key := len(b)
	b = small.appendKey(b, l)
	b[key-1] = byte(len(b) - key)
	b = append(b, l[:]...)
	if with := appendPlace(b, p.ID); len(with) > len(b) {
		mode |= modePlace
		b = with
	}
	b[start] = mode
	b, long := appendTail(b, p)
	args = append(args, b[start:len(b):len(b)])
	if long != nil {
		args = append(args, long)
	}
	return args, b
}

// askedTime is when a push wants its job to be due, in ms: at an instant, or after a delay.
func askedTime(p *Push) (ms int64, instant bool) {
	if !p.DueAt.IsZero() {
		return max(ceilMilli(p.DueAt), 0), true
	}
	return max(ceilDelay(p.Delay), 0), false
}

// dueAt is when a push is due that was stored at now, as the script computes it.
func dueAt(p *Push, now time.Time) time.Time {
	ms, instant := askedTime(p)
	if instant {
		return time.UnixMilli(ms).UTC()
	}
	return now.Add(time.Duration(ms) * time.Millisecond)
}
