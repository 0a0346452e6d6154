package importer

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// delay-queue's keys with its default configuration, and the import's own keys.
const (
	delayQueueBuckets = "dq_bucket_"
	delayQueueReady   = "dq_queue_"
	delayQueueClaims  = "wakecall_claims"
	delayQueueNumber  = "wakecall_number"
)

var delayQueueClaim = script("delayqueue_claim.lua")

// DelayQueue is the Redis of a delay-queue (ouqiang's).
type DelayQueue struct {
	Redis     *redis.Client
	Namespace registry.Topic            // has the settings of all topics
	TopicOf   func(topic string) string // the gateway's topic for jobs of a topic
	claimed   *claims                   // nil until claims is called
	keys      []string                  // buckets and ready queues
	stuck     time.Time                 // set if no delay-queue runs: jobs due by then at the heads of buckets are claimed
}

func (d *DelayQueue) claims() *claims {
	if d.claimed == nil {
		d.claimed = &claims{
			d.Redis, delayQueueClaims, delayQueueNumber, "delayqueue", delayQueueClaim, d.job, map[string]int64{},
		}
	}
	return d.claimed
}

// Topics implements Old.
func (d *DelayQueue) Topics(context.Context) ([]registry.Topic, error) {
	return []registry.Topic{d.Namespace}, nil
}

// Lock implements Old.
func (d *DelayQueue) Lock(ctx context.Context) error { return alone(ctx, d.Redis) }

// find reads the names of the buckets and ready queues.
func (d *DelayQueue) find(ctx context.Context) error {
	buckets, err := scan(ctx, d.Redis, delayQueueBuckets+"*")
	if err != nil {
		return err
	}
	ready, err := scan(ctx, d.Redis, delayQueueReady+"*")
	d.keys = append(ready, buckets...)
	return err
}

func isBucket(key string) bool { return strings.HasPrefix(key, delayQueueBuckets) }

// Waiting implements Old. It also counts entries of jobs that were finished.
func (d *DelayQueue) Waiting(ctx context.Context) (int, error) {
	if err := d.find(ctx); err != nil {
		return 0, err
	}
	var ready, buckets []string
	for _, key := range d.keys {
		if isBucket(key) {
			buckets = append(buckets, key)
		} else {
			ready = append(ready, key)
		}
	}
	return length(ctx, d.Redis, ready, buckets, []string{delayQueueClaims})
}

// stuckAfter is how long the head of a bucket must stay to conclude that no delay-queue runs: its timers poll every
// second.
const stuckAfter = 3 * time.Second

// Claim implements Old.
func (d *DelayQueue) Claim(ctx context.Context, n int) ([]Job, error) {
	jobs, err := d.claimAny(ctx, n)
	if len(jobs) > 0 || err != nil {
		return jobs, err
	}
	d.begin(time.Time{})
	if err := d.find(ctx); err != nil { // there may be new queues
		return nil, err
	}
	if jobs, err := d.claimAny(ctx, n); len(jobs) > 0 || err != nil {
		return jobs, err
	}
	before, now, err := d.heads(ctx)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	pause(ctx, stuckAfter)
	after, _, err := d.heads(ctx)
	if err != nil || !slices.Equal(before, after) {
		return nil, err
	}
	d.begin(now)
	return d.claimAny(ctx, n)
}

// begin begins again with the first entries of all queues.
func (d *DelayQueue) begin(stuck time.Time) {
	d.stuck = stuck
	clear(d.claims().skip)
}

// heads returns the first due entries of the buckets.
func (d *DelayQueue) heads(ctx context.Context) (heads []string, now time.Time, err error) {
	if now, err = d.Redis.Time(ctx).Result(); err != nil {
		return nil, now, err
	}
	for _, key := range d.keys {
		if !isBucket(key) {
			continue
		}
		// Old servers do not have the command that replaces this one.
		first, err := d.Redis.Do(ctx, "ZRANGEBYSCORE", key, "-inf", now.Unix(), "LIMIT", 0, 1).StringSlice()
		if err != nil {
			return nil, now, err
		}
		for _, id := range first {
			heads = append(heads, key+" "+id)
		}
	}
	return heads, now, nil
}

// claimAny claims jobs from the first queue that has some. It leaves jobs at the head of a bucket that became due after
// d.stuck to the timers of delay-queue.
func (d *DelayQueue) claimAny(ctx context.Context, n int) ([]Job, error) {
	for _, key := range d.keys {
		if jobs, err := d.claim(ctx, key, n); len(jobs) > 0 || err != nil {
			return jobs, err
		}
	}
	return nil, nil
}

func (d *DelayQueue) claim(ctx context.Context, key string, n int) ([]Job, error) {
	kind, before := "ready", int64(0)
	if isBucket(key) {
		kind = "bucket"
	}
	if !d.stuck.IsZero() {
		before = d.stuck.Unix()
	}
	jobs, _, err := d.claims().take(ctx, n, key, nil, kind, before)
	return jobs, err
}

// Left implements Old.
func (d *DelayQueue) Left(ctx context.Context) ([]Job, error) { return d.claims().left(ctx) }

// Drop implements Old.
func (d *DelayQueue) Drop(ctx context.Context, jobs []Job) error { return drop(ctx, jobs) }

// job converts a claim to a push. After its times the claim has the length of the topic, the topic, and the body.
func (d *DelayQueue) job(id, claim string) (Job, error) {
	c, err := parseTimed(claim)
	if err != nil {
		return Job{}, err
	}
	size, rest, _ := strings.Cut(c.rest, " ")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > len(rest) {
		return Job{}, errors.Join(errClaim, err)
	}
	body := []byte(rest[n:])
	return Job{Claimed: c.at, Push: queue.Push{
		Topic: d.TopicOf(rest[:n]), ID: id, Body: body, ContentType: queue.TypeOf(body), Priority: queue.Normal,
		DueAt: c.due, TTR: c.ttr,
	}}, nil
}
