package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// php-delayqueue's keys, and the import's own keys.
const (
	phpInfo   = "dq_job_info"
	phpClaims = "dq_wakecall_claims"
	phpNumber = "dq_wakecall_number"

	phpBuckets = 64 // php-delayqueue has two unless it was changed
	phpCalls   = 12 // calls of a job that always fails

	phpNever = 1e12 // Unix s; a later time would not fit into a time.Time and be in the past
)

var phpClaim = script("phpdq_claim.lua")

// PHPDQ is a php-delayqueue.
type PHPDQ struct {
	rows   []phpTopic
	shards []*claims
	zone   *time.Location
	topics map[string]registry.Topic // by their names in php-delayqueue
}

// NewPHPDQ returns an importer from these shards; zone is the time zone of the old server.
func NewPHPDQ(rows []phpTopic, shards []*redis.Client, zone *time.Location) *PHPDQ {
	p := &PHPDQ{rows: rows, zone: zone}
	for _, shard := range shards {
		p.shards = append(p.shards, &claims{shard, phpClaims, phpNumber, "phpdq", phpClaim, p.job, map[string]int64{}})
	}
	return p
}

// Topics implements Old.
func (p *PHPDQ) Topics(context.Context) (list []registry.Topic, err error) {
	p.topics = map[string]registry.Topic{}
	seen := map[string]string{}
	for _, row := range p.rows {
		t := row.topic()
		if other, ok := seen[t.Name]; ok {
			return nil, fmt.Errorf("the topics %s and %s have the same name in lower case: rename one in dq_topic first",
				other, row.Topic)
		}
		seen[t.Name] = row.Topic
		p.topics[row.Topic] = t
		list = append(list, t)
	}
	return list, nil
}

// Lock implements Old.
func (p *PHPDQ) Lock(ctx context.Context) error {
	for _, shard := range p.shards {
		if err := alone(ctx, shard.redis); err != nil {
			return err
		}
	}
	return nil
}

// phpQueues returns the keys of waiting jobs: buckets and ready queues.
func phpQueues() (buckets, ready []string) {
	for n := range phpBuckets {
		buckets = append(buckets, "dq_bucket_"+strconv.Itoa(n))
	}
	return buckets, []string{"dq_ready_queue", "dq_1ready_queue", "dq_2ready_queue", "dq_3ready_queue"}
}

// Waiting implements Old.
func (p *PHPDQ) Waiting(ctx context.Context) (sum int, err error) {
	for _, shard := range p.shards {
		buckets, ready := phpQueues()
		n, err := length(ctx, shard.redis, ready, buckets, []string{phpClaims})
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Claim implements Old.
func (p *PHPDQ) Claim(ctx context.Context, n int) ([]Job, error) {
	jobs, err := p.claimAny(ctx, n)
	if len(jobs) > 0 || err != nil {
		return jobs, err
	}
	for _, shard := range p.shards {
		clear(shard.skip)
	}
	return p.claimAny(ctx, n)
}

// claimAny claims jobs from the first queue that has some.
func (p *PHPDQ) claimAny(ctx context.Context, n int) ([]Job, error) {
	buckets, ready := phpQueues()
	for _, shard := range p.shards {
		full, err := phpFull(ctx, shard.redis, buckets, ready)
		if err != nil {
			return nil, err
		}
		for _, key := range full {
			if jobs, err := p.claim(ctx, shard, key, n); err != nil || len(jobs) > 0 {
				return jobs, err
			}
		}
	}
	return nil, nil
}

// phpFull returns the queues that are not empty.
func phpFull(ctx context.Context, shard *redis.Client, buckets, ready []string) (full []string, err error) {
	var exist []*redis.IntCmd
	keys := append(buckets, ready...)
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

// claim claims jobs from one queue.
func (p *PHPDQ) claim(ctx context.Context, shard *claims, key string, n int) ([]Job, error) {
	kind := "ready"
	if strings.HasPrefix(key, "dq_bucket_") {
		kind = "bucket"
	}
	args := []any{kind}
	for name := range p.topics {
		args = append(args, name)
	}
	jobs, _, err := shard.take(ctx, n, key, []string{phpInfo}, args...)
	return jobs, err
}

// Left implements Old.
func (p *PHPDQ) Left(ctx context.Context) (jobs []Job, err error) {
	for _, shard := range p.shards {
		some, err := shard.left(ctx)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	return jobs, nil
}

// Drop implements Old.
func (p *PHPDQ) Drop(ctx context.Context, jobs []Job) error { return drop(ctx, jobs) }

// job converts the claim of TOPIC:ID to a push: CLAIMED SCORE BODY. Its due time is the score, or else the notify_time
// in its body.
func (p *PHPDQ) job(key, claim string) (Job, error) {
	parts := strings.SplitN(claim, " ", 3)
	if len(parts) != 3 {
		return Job{}, errClaim
	}
	claimed, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return Job{}, err
	}
	name, id, _ := strings.Cut(key, ":")
	topic, body := p.topics[name], []byte(parts[2])
	var times struct {
		Set      string `json:"dq_set_time"`
		Notify   string `json:"notify_time"`
		Failures int    `json:"exp_notify_nums"`
	}
	_ = json.Unmarshal(body, &times) // missing values stay zero
	added, _ := time.ParseInLocation(time.DateTime, times.Set, p.zone)
	due, err := time.ParseInLocation(time.DateTime, times.Notify, p.zone)
	if seconds, scoreErr := strconv.ParseFloat(parts[1], 64); scoreErr == nil {
		due, err = time.UnixMilli(int64(min(seconds, phpNever)*1000)), nil
	}
	if err != nil {
		due = time.Unix(0, 0) // now
	}
	priority, _ := queue.ParsePriority(topic.Priority)
	return Job{Added: added, Claimed: time.UnixMilli(claimed), Push: queue.Push{
		Topic: strings.ToLower(name), ID: id, Body: body, DueAt: due, Priority: priority,
		MaxAttempts: max(1, phpCalls-times.Failures), Retry: phpRetry(times.Failures),
	}}, nil
}

// phpRetry returns the retry waits of a job that has already failed some times: 2n - 1 minutes after failure n.
func phpRetry(failures int) (waits []time.Duration) {
	for n := failures + 1; failures > 0 && n < phpCalls; n++ {
		waits = append(waits, time.Duration(2*n-1)*time.Minute)
	}
	return waits
}

// phpTopic is a row of dq_topic.
type phpTopic struct {
	Topic, TName, Callback, Email, Createor, Method string
	ReNotifyFlag                                    string
	Delay, Timeout, Status, Priority                int64
}

// noMark is the default of the column re_notify_flag.
const noMark = "重试标记"

func (row *phpTopic) topic() registry.Topic {
	t := registry.NewTopic(strings.ToLower(row.Topic))
	t.Title, t.Owner, t.Dialect = row.TName, row.Createor, registry.DialectPHPDQ
	t.CallbackURL = strings.TrimSpace(row.Callback)
	t.Delay, t.MaxAttempts = registry.Duration(time.Duration(row.Delay)*time.Second), phpCalls
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

var errNoShard = errors.New("dq_redis has no row: name the Redis with --redis host:port[:password]")
