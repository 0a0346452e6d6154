package phpdq

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// php-delayqueue's keys, and the import's own keys.
const (
	keyInfo   = "dq_job_info"
	keyBucket = "dq_bucket_"
	keyClaims = "dq_wakecall_claims"
	keyNumber = "dq_wakecall_number"

	maxBuckets = 64 // php-delayqueue has two by default
	maxCalls   = 12 // calls of a job that always fails
)

//go:embed claim.lua
var claimSource string

// source is a php-delayqueue installation.
type source struct {
	rows   []topicRow
	shards []*importer.Claims
	zone   *time.Location
	topics map[string]registry.Topic // by their names in php-delayqueue
}

// newSource returns a source with these shards. zone is the time zone of the old server.
func newSource(rows []topicRow, shards []*redis.Client, zone *time.Location) *source {
	s := &source{rows: rows, zone: zone}
	for _, db := range shards {
		s.shards = append(s.shards, &importer.Claims{
			Redis: db, Key: keyClaims, Number: keyNumber, System: "phpdq", Script: importer.ClaimScript(claimSource),
			Parse: s.job, Skip: map[string]int64{},
		})
	}
	return s
}

// Topics implements importer.Source.
func (s *source) Topics(context.Context) (list []registry.Topic, err error) {
	s.topics = map[string]registry.Topic{}
	seen := map[string]string{}
	for _, row := range s.rows {
		t := row.topic()
		if other, ok := seen[t.Name]; ok {
			return nil, fmt.Errorf("topics %s and %s differ only in case: rename one in dq_topic first",
				other, row.Topic)
		}
		seen[t.Name] = row.Topic
		s.topics[row.Topic] = t
		list = append(list, t)
	}
	return list, nil
}

// Lock implements importer.Source.
func (s *source) Lock(ctx context.Context) error {
	for _, shard := range s.shards {
		if err := shard.Lock(ctx); err != nil {
			return err
		}
	}
	return nil
}

// queues returns the keys of waiting jobs: buckets and ready queues.
func queues() (buckets, ready []string) {
	for n := range maxBuckets {
		buckets = append(buckets, keyBucket+strconv.Itoa(n))
	}
	return buckets, []string{"dq_ready_queue", "dq_1ready_queue", "dq_2ready_queue", "dq_3ready_queue"}
}

// Waiting implements importer.Source.
func (s *source) Waiting(ctx context.Context) (sum int, err error) {
	for _, shard := range s.shards {
		buckets, ready := queues()
		n, err := importer.Length(ctx, shard.Redis, ready, buckets, []string{keyClaims})
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Count implements importer.Counter.
func (s *source) Count(ctx context.Context) (sum int, err error) {
	for _, shard := range s.shards {
		n, err := shard.Count(ctx, func() error {
			_, err := s.claimFrom(ctx, shard, importer.CountStep)
			return err
		})
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Claim implements importer.Source.
func (s *source) Claim(ctx context.Context, n int) ([]importer.Job, error) {
	jobs, err := s.claimAny(ctx, n)
	if len(jobs) > 0 || err != nil {
		return jobs, err
	}
	for _, shard := range s.shards {
		clear(shard.Skip)
	}
	return s.claimAny(ctx, n)
}

// claimAny claims jobs from the first queue that has some.
func (s *source) claimAny(ctx context.Context, n int) ([]importer.Job, error) {
	for _, shard := range s.shards {
		if jobs, err := s.claimFrom(ctx, shard, n); err != nil || len(jobs) > 0 {
			return jobs, err
		}
	}
	return nil, nil
}

func (s *source) claimFrom(ctx context.Context, shard *importer.Claims, n int) ([]importer.Job, error) {
	buckets, ready := queues()
	full, err := nonEmpty(ctx, shard.Redis, buckets, ready)
	if err != nil {
		return nil, err
	}
	for _, key := range full {
		if jobs, err := s.claim(ctx, shard, key, n); err != nil || len(jobs) > 0 {
			return jobs, err
		}
	}
	return nil, nil
}

// nonEmpty returns the queues that are not empty.
func nonEmpty(ctx context.Context, shard *redis.Client, buckets, ready []string) (full []string, err error) {
	var exist []*redis.IntCmd
	keys := slices.Concat(buckets, ready)
	_, err = shard.Pipelined(ctx, func(c redis.Pipeliner) error {
		for _, key := range keys {
			exist = append(exist, c.Exists(ctx, key))
		}
		return nil
	})
	for i, e := range exist {
		if e.Val() > 0 {
			full = append(full, keys[i])
		}
	}
	return full, err
}

// claim claims jobs of one queue.
func (s *source) claim(ctx context.Context, shard *importer.Claims, key string, n int) ([]importer.Job, error) {
	kind := "ready"
	if strings.HasPrefix(key, keyBucket) {
		kind = "bucket"
	}
	args := []any{kind}
	for name := range s.topics {
		args = append(args, name)
	}
	jobs, _, err := shard.Take(ctx, n, key, []string{keyInfo}, args...)
	return jobs, err
}

// Left implements importer.Source.
func (s *source) Left(ctx context.Context) (jobs []importer.Job, err error) {
	for _, shard := range s.shards {
		some, err := shard.Left(ctx)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	return jobs, nil
}

// Drop implements importer.Source.
func (s *source) Drop(ctx context.Context, jobs []importer.Job) error {
	return importer.Drop(ctx, jobs)
}

// job converts the claim of TOPIC:ID to a push: CLAIMED SCORE BODY. Its due time is the score or, failing that, the
// notify_time in its body.
func (s *source) job(key, claim string) (importer.Job, error) {
	parts := strings.SplitN(claim, " ", 3)
	if len(parts) != 3 {
		return importer.Job{}, importer.ErrClaim
	}
	claimed, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return importer.Job{}, err
	}
	name, id, _ := strings.Cut(key, ":")
	topic, body := s.topics[name], []byte(parts[2])
	var times struct {
		Set      string `json:"dq_set_time"`
		Notify   string `json:"notify_time"`
		Failures int    `json:"exp_notify_nums"`
	}
	_ = json.Unmarshal(body, &times) // missing values are zero
	added, _ := time.ParseInLocation(time.DateTime, times.Set, s.zone)
	due, err := time.ParseInLocation(time.DateTime, times.Notify, s.zone)
	if seconds, scoreErr := strconv.ParseFloat(parts[1], 64); scoreErr == nil {
		due, err = time.UnixMilli(int64(min(seconds, maxUnix)*1000)), nil
	}
	if err != nil {
		due = time.Unix(0, 0) // now
	}
	priority, _ := store.ParsePriority(topic.Priority)
	return importer.Job{Added: added, Claimed: time.UnixMilli(claimed), Push: store.Push{
		Topic: strings.ToLower(name), ID: id, Body: body, DueAt: due, Priority: priority,
		MaxAttempts: max(1, maxCalls-times.Failures), Retry: retryOf(times.Failures),
	}}, nil
}

// retryOf returns the remaining retry waits of a job that has already failed: 2n - 1 minutes after failure n.
func retryOf(failures int) (waits []time.Duration) {
	for n := failures + 1; failures > 0 && n < maxCalls; n++ {
		waits = append(waits, time.Duration(2*n-1)*time.Minute)
	}
	return waits
}

// topicRow is a row of dq_topic.
type topicRow struct {
	Topic, TName, Callback, Email, Createor, Method string
	ReNotifyFlag                                    string
	Delay, Timeout, Status, Priority                int64
}

// noMark is the default of the column re_notify_flag.
const noMark = "重试标记"

func (row *topicRow) topic() registry.Topic {
	t := registry.NewTopic(strings.ToLower(row.Topic))
	t.Title, t.Owner, t.Dialect = row.TName, row.Createor, dialectName
	t.CallbackURL = strings.TrimSpace(row.Callback)
	t.Delay, t.MaxAttempts = registry.Duration(time.Duration(row.Delay)*time.Second), maxCalls
	if row.Timeout > 0 {
		t.TTR = registry.Duration(max(registry.MinTTR, time.Duration(row.Timeout)*time.Millisecond))
	}
	if t.ContentType = "form"; !strings.EqualFold(strings.TrimSpace(row.Method), "POST") {
		t.Method = "GET"
	}
	if row.ReNotifyFlag != noMark {
		t.RetryIf = strings.Trim(row.ReNotifyFlag, "; \t\r\n") // php-delayqueue evaluates it as a statement
	}
	for mail := range strings.SplitSeq(row.Email, ",") {
		if mail = strings.TrimSpace(mail); mail != "" {
			t.Emails = append(t.Emails, mail)
		}
	}
	if row.Status != 1 {
		t.State = registry.TopicOffline
	}
	switch row.Priority {
	case 1:
		t.Priority = "high"
	case 3:
		t.Priority = "low"
	}
	return t
}
