package delayqueue

import (
	"context"
	_ "embed" // for the script
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/registry"
)

// delay-queue's keys with its default configuration, and the import's own keys.
const (
	keyBuckets = "dq_bucket_"
	keyReady   = "dq_queue_"
	keyClaims  = "wakecall_claims"
	keyNumber  = "wakecall_number"
)

//go:embed claim.lua
var claimSource string

func importFlags(f *pflag.FlagSet) importer.Open {
	url := importer.RedisFlag(f, "redis://:pw@host:6379/1")
	return func(context.Context, func(string) string) (importer.Source, func(), error) {
		o, err := url()
		if err != nil {
			return nil, nil, err
		}
		db := importer.Connect(o)
		return newSource(db), func() { _ = db.Close() }, nil
	}
}

// source is the Redis of a delay-queue (ouqiang's).
type source struct {
	*importer.Claims
	keys  []string  // buckets and ready queues
	stuck time.Time // set if no delay-queue runs: jobs at the heads of buckets that were due by then are claimed
}

func newSource(db *redis.Client) *source {
	s := &source{}
	s.Claims = &importer.Claims{
		Redis: db, Key: keyClaims, Number: keyNumber, System: "delayqueue", Script: importer.ClaimScript(claimSource),
		Parse: s.job, Skip: map[string]int64{},
	}
	return s
}

// Topics implements importer.Source.
func (s *source) Topics(context.Context) ([]registry.Topic, error) {
	return []registry.Topic{gateway.Namespace(Namespace, title)}, nil
}

// find reads the names of the buckets and ready queues.
func (s *source) find(ctx context.Context) error {
	buckets, err := importer.Scan(ctx, s.Redis, keyBuckets+"*")
	if err != nil {
		return err
	}
	ready, err := importer.Scan(ctx, s.Redis, keyReady+"*")
	s.keys = slices.Concat(ready, buckets)
	return err
}

func isBucket(key string) bool { return strings.HasPrefix(key, keyBuckets) }

// Waiting implements importer.Source. It also counts entries of jobs that were finished.
func (s *source) Waiting(ctx context.Context) (int, error) {
	if err := s.find(ctx); err != nil {
		return 0, err
	}
	var ready, buckets []string
	for _, key := range s.keys {
		if isBucket(key) {
			buckets = append(buckets, key)
		} else {
			ready = append(ready, key)
		}
	}
	return importer.Length(ctx, s.Redis, ready, buckets, []string{keyClaims})
}

// Count implements importer.Counter. It counts due jobs, too: if no timer makes them ready, they are imported as stuck.
func (s *source) Count(ctx context.Context) (int, error) {
	defer s.begin(time.Time{})
	return s.Claims.Count(ctx, func() (err error) {
		if s.stuck, err = s.Redis.Time(ctx).Result(); err != nil {
			return err
		}
		if err := s.find(ctx); err != nil {
			return err
		}
		_, err = s.claimAny(ctx, importer.CountStep)
		return err
	})
}

// stuckAfter is how long due entries must stay at the heads of buckets before the import concludes that no delay-queue
// runs. Its timers poll every second.
const stuckAfter = 3 * time.Second

// Claim implements importer.Source.
func (s *source) Claim(ctx context.Context, n int) ([]importer.Job, error) {
	jobs, err := s.claimAny(ctx, n)
	if len(jobs) > 0 || err != nil {
		return jobs, err
	}
	s.begin(time.Time{})
	if err := s.find(ctx); err != nil { // there may be new queues
		return nil, err
	}
	if jobs, err := s.claimAny(ctx, n); len(jobs) > 0 || err != nil {
		return jobs, err
	}
	before, now, err := s.heads(ctx)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	pause.For(ctx, stuckAfter)
	after, _, err := s.heads(ctx)
	if err != nil || !slices.Equal(before, after) {
		return nil, err
	}
	s.begin(now)
	return s.claimAny(ctx, n)
}

// begin starts over with the first entries of all queues.
func (s *source) begin(stuck time.Time) {
	s.stuck = stuck
	clear(s.Skip)
}

// heads returns the first due entries of the buckets.
func (s *source) heads(ctx context.Context) (heads []string, now time.Time, err error) {
	if now, err = s.Redis.Time(ctx).Result(); err != nil {
		return nil, now, err
	}
	for _, key := range s.keys {
		if !isBucket(key) {
			continue
		}
		// Old servers lack the command that replaces this one.
		first, err := s.Redis.Do(ctx, "ZRANGEBYSCORE", key, "-inf", now.Unix(), "LIMIT", 0, 1).StringSlice()
		if err != nil {
			return nil, now, err
		}
		for _, id := range first {
			heads = append(heads, key+" "+id)
		}
	}
	return heads, now, nil
}

// claimAny claims jobs from the first queue that has some. Jobs at the head of a bucket that became due after s.stuck
// are left to delay-queue's timers.
func (s *source) claimAny(ctx context.Context, n int) ([]importer.Job, error) {
	for _, key := range s.keys {
		if jobs, err := s.claim(ctx, key, n); len(jobs) > 0 || err != nil {
			return jobs, err
		}
	}
	return nil, nil
}

func (s *source) claim(ctx context.Context, key string, n int) ([]importer.Job, error) {
	kind, before := "ready", int64(0)
	if isBucket(key) {
		kind = "bucket"
	}
	if !s.stuck.IsZero() {
		before = s.stuck.Unix()
	}
	jobs, _, err := s.Take(ctx, n, key, nil, kind, before)
	return jobs, err
}

// job converts a claim to a push. In a claim, the times are followed by the length of the topic, the topic, and the
// body.
func (s *source) job(id, claim string) (importer.Job, error) {
	c, err := importer.ParseTimed(claim)
	if err != nil {
		return importer.Job{}, err
	}
	size, rest, _ := strings.Cut(c.Rest, " ")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > len(rest) {
		return importer.Job{}, errors.Join(importer.ErrClaim, err)
	}
	return c.Job(topicOf(rest[:n]), id, []byte(rest[n:])), nil
}
