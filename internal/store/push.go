package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/internal/batch"
)

// Pushes that wait for a replica have calls of their own: these take long, so more of them are under way at once; and
// the fewer jobs each has, the sooner pushes are refused when a replica has stopped.
const (
	maxReplicaCalls = 16
	maxReplicaJobs  = 128
)

// smallJobs is the most pushes of a request that is not large.
const smallJobs = 16

// newPushes makes the batcher of pushes with a durability. When pushes wait for a replica that does not
// answer, they are refused once their answers would come too late: they would otherwise queue up for minutes.
func (b *Bucket) newPushes(d Durability, o Options) *batch.Batcher[[]Push, []Result] {
	limits := b.batchOptions()
	limits.Jobs = maxPushed
	if d != Memory {
		limits.Calls, limits.Jobs, limits.Wait = maxReplicaCalls, maxReplicaJobs, o.Timeout
	}
	return batch.New(limits, batch.List(func(list []Push) []Result {
		results, unsafe := b.storeAll(d, list, o.Timeout)
		if o.Accepted != nil {
			if err := o.Accepted(list, results); err != nil {
				b.refuseStored(results, err)
			}
		}
		if unsafe != nil { // after Accepted, since the journal has them: pushed again they are duplicates
			b.markUnsafe(results, unsafe)
		}
		return results
	}))
}

// Push stores pushes, which share calls with those of other goroutines. A large request is stored
// in parts. All of them count as large, however small the last one is: otherwise it would overtake the parts before,
// and two pushes of one id would change places.
func (b *Bucket) Push(ctx context.Context, d Durability, list []Push) []Result {
	most := largeJobs
	if d != Memory {
		most = maxReplicaJobs
	}
	var parts []*batch.Request[[]Push, []Result]
	for rest := list; len(rest) > 0; {
		n, bytes := fitting(rest, most)
		size := batch.Size{Jobs: n, Bytes: bytes, Large: len(list) > smallJobs}
		parts = append(parts, b.pushes[d].Add(rest[:n], size))
		rest = rest[n:]
	}
	results := make([][]Result, len(parts))
	for i, part := range parts {
		var err error
		if results[i], err = part.Wait(ctx); err != nil { // when ctx has ended the pushes may still be stored
			results[i] = failAll(len(part.Value), fmt.Errorf("push to shard %s: %w", b.shard.name, err))
		}
	}
	if len(results) == 1 {
		return results[0]
	}
	return slices.Concat(results...)
}

// fitting returns how many of the pushes fit in one call, and the size of their bodies.
func fitting(pushes []Push, most int) (n, bytes int) {
	for ; n < min(len(pushes), most); n++ {
		body := len(pushes[n].Body)
		if n > 0 && bytes+body > maxBytes {
			break
		}
		bytes += body
	}
	return n, bytes
}

func failAll(n int, err error) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

// refuseStored turns the results of stored pushes into errors: a push that the journal could not record is not
// acknowledged.
func (b *Bucket) refuseStored(results []Result, err error) {
	err = b.Unavailable("journal", err)
	for i := range results {
		if results[i].Err == nil {
			results[i] = Result{Err: err}
		}
	}
}

// markUnsafe turns the results of stored jobs and of duplicates into errors that say that no replica has confirmed
// them.
func (b *Bucket) markUnsafe(results []Result, why error) {
	for i := range results {
		if job := results[i].Job; results[i].Err == nil {
			results[i] = Result{Job: job, Err: b.NotReplicated("push", job.Topic, job.ID, why)}
		}
	}
}

// appendPushes appends the arguments of push.lua for pushes of a bucket.
func appendPushes(args []any, pushes []Push) []any {
	args = append(slices.Grow(args, 8*len(pushes)+9), len(pushes))
	for from, i := 0, 1; i <= len(pushes); i++ {
		if i == len(pushes) || pushes[i].Topic != pushes[from].Topic {
			args = append(args, pushes[from].Topic, i-from)
			for k := from; k < i; k++ {
				args = appendPush(args, &pushes[k])
			}
			from = i
		}
	}
	return args
}

// What push.lua does when the id exists.
var pushModes = [...]string{Keep: "keep", Replace: "replace", Refuse: "refuse"}

const modeResend = "resend"

func appendPush(args []any, p *Push) []any {
	mode := pushModes[p.OnDuplicate]
	if p.Again {
		mode = modeResend
	}
	at, instant := AskedTime(p)
	return append(args, p.ID, mode, timeText(at, instant), p.Priority.String(), appendPairs(nil, p), expiryText(p),
		p.Body)
}

// timeText returns a time as scripts read it: an instant, or a delay from now, in ms.
func timeText(ms int64, instant bool) string {
	if instant {
		return strconv.FormatInt(ms, 10)
	}
	return "+" + strconv.FormatInt(ms, 10)
}

func expiryText(p *Push) string {
	switch {
	case p.TTL > 0:
		return timeText(p.TTL.Milliseconds(), false)
	case !p.ExpiresAt.IsZero():
		return timeText(max(1, p.ExpiresAt.UnixMilli()), true)
	}
	return ""
}

// AskedTime returns the due time that a push asks for, in ms: an instant or a delay.
func AskedTime(p *Push) (ms int64, instant bool) {
	if !p.DueAt.IsZero() {
		return max(CeilMilli(p.DueAt).UnixMilli(), 0), true
	}
	return max(ceilDelay(p.Delay), 0), false
}

// dueAt returns the due time of the i-th push of a call that was stored at now, as the script computes it.
func dueAt(p *Push, now time.Time, i int) time.Time {
	ms, instant := AskedTime(p)
	if instant {
		return time.UnixMilli(ms).UTC()
	}
	due := now.Add(time.Duration(ms)*time.Millisecond + time.Duration(i%1000)*time.Microsecond)
	return due.Truncate(time.Millisecond)
}

// storeAll calls the push script. In a repeated call, a push that finds its own job by the id is no duplicate. unsafe
// says why no replica has confirmed what was stored, when the durability requires one.
func (b *Bucket) storeAll(d Durability, pushes []Push, timeout time.Duration) (results []Result, unsafe error) {
	ctx, cancel := b.shard.ctx, func() {}
	if d == Memory {
		ctx, cancel = context.WithTimeout(b.shard.ctx, timeout)
	}
	defer cancel()
	results, unsafe, err := b.storeBy(ctx, pushScript, d, pushes)
	if un, ok := errors.AsType[*UnavailableError](err); ok && (un.Reason == ReasonComparing || un.Reason == Absent) {
		return b.storeEarly(ctx, d, pushes, un)
	}
	if err != nil {
		return failAll(len(pushes), err), nil
	}
	return results, unsafe
}

// storeBy calls the push script or its variant.
func (b *Bucket) storeBy(
	ctx context.Context, script *Script, d Durability, pushes []Push,
) (results []Result, unsafe, err error) {
	o, err := b.callDurably(ctx, d, script, appendPushes(nil, pushes)...)
	if err != nil {
		return nil, nil, err
	}
	results, err = b.pushed(pushes, o)
	if err != nil {
		return nil, nil, fmt.Errorf("push to shard %s: %w", b.shard.name, err)
	}
	return results, o.Unsafe, nil
}

// The lengths of push.lua's answer: its head, and what it says about each push whose id existed.
const (
	pushedHead      = 2
	duplicateFields = 3
)

// pushed decodes the answer of the push script.
func (b *Bucket) pushed(pushes []Push, o Reply) ([]Result, error) {
	reply, ok := o.Value.([]any)
	if !ok || len(reply) < pushedHead || (len(reply)-pushedHead)%duplicateFields != 0 {
		return nil, ErrReply
	}
	_, timed := reply[0].(int64)
	revision, revised := reply[1].(int64)
	if !timed || !revised {
		return nil, ErrReply
	}
	now := micros(reply[0])
	results := make([]Result, len(pushes))
	for i := range pushes {
		results[i].Job = b.fresh(&pushes[i], dueAt(&pushes[i], now, i), now)
		results[i].Job.Revision = revision + int64(i)
		results[i].Job.ETag = pushedETag(&pushes[i], &results[i].Job)
	}
	for d := range slices.Chunk(reply[pushedHead:], duplicateFields) {
		n, ok := d[0].(int64)
		if !ok || n < 1 || int(n) > len(pushes) {
			return nil, ErrReply
		}
		if p := &pushes[n-1]; d[1] == "closed" {
			results[n-1] = Result{Err: fmt.Errorf("push %s/%s into group %s: %w", p.Topic, p.ID, p.Group, ErrClosed)}
			continue
		}
		results[n-1] = b.duplicate(&pushes[n-1], results[n-1].Job, d[1] == "replaced", d[2], now, o.Doubtful)
	}
	return results, nil
}

// duplicate returns the result of a push whose id existed. stored is the job of the push if that was stored.
func (b *Bucket) duplicate(p *Push, stored Job, replaced bool, existing any, now time.Time, again bool) Result {
	if replaced {
		return Result{Job: stored, Duplicate: !again}
	}
	job, err := b.Described(p.Topic, existing, now)
	if err != nil {
		return Result{Err: err}
	}
	if again && isOwn(p, job) && job.Attempts == 0 {
		return Result{Job: *job}
	}
	return DuplicateOf(p, job)
}

// isOwn reports whether a job may be the one that an unanswered call of the push has stored.
func isOwn(p *Push, j *Job) bool {
	due := dueAt(p, j.CreatedAt, 0)
	return !j.DueAt.Before(due) && j.DueAt.Before(due.Add(2*time.Millisecond)) &&
		j.Priority == p.Priority && bytes.Equal(j.Body, p.Body)
}

// fresh returns a job as its push stored it.
func (b *Bucket) fresh(p *Push, due, now time.Time) Job {
	created := now.Truncate(time.Millisecond)
	j := Job{
		Topic: p.Topic, ID: p.ID, Shard: b.shard.name, State: Ready, Priority: p.Priority, Order: p.Order, TTR: p.TTR,
		MaxAttempts: p.MaxAttempts, CreatedAt: created, DueAt: due, ExpiresAt: p.ExpiresAt, Headers: p.Headers,
		Retry: p.Retry, Group: p.Group, Traceparent: p.Traceparent, URL: p.URL, Key: p.Key, Quota: p.Quota,
		Schedule: p.Schedule, For: p.For, Awaited: p.Awaited,
	}
	if p.TTL > 0 {
		j.ExpiresAt = now.Add(p.TTL.Truncate(time.Millisecond)).Truncate(time.Millisecond)
	}
	if due.After(now) {
		j.State, j.NextAt = Delayed, due
	}
	return j
}

// pushedETag returns the ETag of a job as its push stored it, whose record it composes as store.lua does.
func pushedETag(p *Push, j *Job) string {
	var room [1 << 10]byte
	b := append(append(room[:0], "waiting "...), j.Priority.String()...)
	for _, n := range []int64{max(0, j.DueAt.UnixMilli()), j.CreatedAt.UnixMilli(), 0, j.Revision} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	head := len(b)
	if b = appendPairs(b, p); !j.ExpiresAt.IsZero() {
		b = strconv.AppendInt(append(b, " expires="...), max(1, j.ExpiresAt.UnixMilli()), 10)
	}
	if len(b)-head+len(p.Body) > longBody {
		return etagOf(append(b, " long=1\n"...))
	}
	return etagOf(append(append(b, '\n'), p.Body...))
}

// DuplicateOf returns the result of a push that does not replace the existing job of its id.
func DuplicateOf(p *Push, job *Job) Result {
	if p.OnDuplicate == Refuse {
		return Result{Job: *job, Err: fmt.Errorf("push %s/%s: %w", p.Topic, p.ID, ErrDuplicate)}
	}
	return Result{Job: *job, Duplicate: true}
}
