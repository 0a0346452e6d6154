package importer

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Keys of php-delayqueue, and ours beside them.
const (
	phpInfo   = "dq_job_info"
	phpClaims = "dq_wakecall_claims"
	phpNumber = "dq_wakecall_number"

	phpBuckets = 64 // php-delayqueue has two unless it was changed
	phpCalls   = 12 // of a job that always fails
)

var (
	//go:embed phpdq_claim.lua
	phpClaimSource string

	phpClaim = redis.NewScript(phpClaimSource)
)

// PHPDQ is a php-delayqueue.
type PHPDQ struct {
	rows   []phpTopic
	shards []*redis.Client
	zone   *time.Location
	topics map[string]registry.Topic // by their names there
}

// NewPHPDQ imports from these shards; zone is the time zone of the old server.
func NewPHPDQ(rows []phpTopic, shards []*redis.Client, zone *time.Location) *PHPDQ {
	return &PHPDQ{rows: rows, shards: shards, zone: zone}
}

// phpKey is the claim of a job.
type phpKey struct {
	shard        *redis.Client
	number, name string
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
		if err := alone(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

// queues are the keys of jobs that wait, buckets before ready queues.
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
		n, err := length(ctx, shard, ready, buckets, []string{phpClaims})
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Claim implements Old.
func (p *PHPDQ) Claim(ctx context.Context, n int) ([]Job, error) {
	buckets, ready := phpQueues()
	for _, shard := range p.shards {
		full, err := phpFull(ctx, shard, buckets, ready)
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

// phpFull are the queues that are not empty.
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

// claim claims jobs of one queue, and skips those that are not ours to take.
func (p *PHPDQ) claim(ctx context.Context, shard *redis.Client, key string, n int) (jobs []Job, err error) {
	kind := "ready"
	if strings.HasPrefix(key, "dq_bucket_") {
		kind = "bucket"
	}
	for skip := int64(0); ; {
		args := []any{n, skip, kind}
		for name := range p.topics {
			args = append(args, name)
		}
		reply, err := phpClaim.Run(ctx, shard, []string{phpInfo, phpClaims, phpNumber, key}, args...).Slice()
		if err != nil {
			return nil, fmt.Errorf("claim jobs of %s in %s: %w", key, shard.Options().Addr, err)
		}
		number, skipped := fmt.Sprint(reply[0]), reply[1].(int64)
		for ; len(reply) > 2; reply = reply[3:] {
			name, score, body := reply[2].(string), reply[3].(string), reply[4].(string)
			jobs = append(jobs, p.job(phpKey{shard, number, name}, score, body))
		}
		if len(jobs) > 0 || skipped == skip {
			return jobs, nil
		}
		skip = skipped
	}
}

// Left implements Old.
func (p *PHPDQ) Left(ctx context.Context) (jobs []Job, err error) {
	for _, shard := range p.shards {
		claims, err := shard.HGetAll(ctx, phpClaims).Result()
		if err != nil {
			return nil, fmt.Errorf("read the claims in %s: %w", shard.Options().Addr, err)
		}
		for name, claim := range claims {
			parts := strings.SplitN(claim, " ", 4)
			if len(parts) != 4 {
				return nil, fmt.Errorf("the claim of %q in %s is not one", name, shard.Options().Addr)
			}
			job := p.job(phpKey{shard, parts[0], name}, parts[2], parts[3])
			ms, _ := strconv.ParseInt(parts[1], 10, 64)
			job.Claimed = time.UnixMilli(ms)
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}

// Drop implements Old. The jobs are of one claim.
func (p *PHPDQ) Drop(ctx context.Context, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	first := jobs[0].Key.(phpKey)
	args := []any{first.number}
	for _, job := range jobs {
		args = append(args, job.Key.(phpKey).name)
	}
	return dropScript.Run(ctx, first.shard, []string{phpClaims}, args...).Err()
}

// job is a waiting job as a push. Its due time is the score, or else the notify_time of its body.
func (p *PHPDQ) job(key phpKey, score, body string) Job {
	name, id, _ := strings.Cut(key.name, ":")
	topic := p.topics[name]
	var times struct {
		Set      string `json:"dq_set_time"`
		Notify   string `json:"notify_time"`
		Failures int    `json:"exp_notify_nums"`
	}
	_ = json.Unmarshal([]byte(body), &times) // what is not there is zero
	added, _ := time.ParseInLocation(time.DateTime, times.Set, p.zone)
	due, err := time.ParseInLocation(time.DateTime, times.Notify, p.zone)
	if seconds, scoreErr := strconv.ParseFloat(score, 64); scoreErr == nil {
		due, err = time.UnixMilli(int64(seconds*1000)), nil
	}
	if err != nil {
		due = time.Unix(0, 0) // now
	}
	priority, _ := queue.ParsePriority(topic.Priority)
	return Job{Key: key, Added: added, Push: queue.Push{
		Topic: strings.ToLower(name), ID: id, Body: []byte(body), DueAt: due, Priority: priority,
		MaxAttempts: max(1, phpCalls-times.Failures),
		Via:         "import phpdq " + key.shard.Options().Addr + " " + key.number,
	}}
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
	t.Title, t.CallbackURL, t.Owner, t.Dialect = row.TName, row.Callback, row.Createor, registry.DialectPHPDQ
	t.Delay, t.MaxAttempts = registry.Duration(time.Duration(row.Delay)*time.Second), phpCalls
	if row.Timeout > 0 {
		t.TTR = registry.Duration(max(registry.MinTTR, time.Duration(row.Timeout)*time.Millisecond))
	}
	if t.ContentType = "form"; !strings.EqualFold(strings.TrimSpace(row.Method), "POST") {
		t.Method = "GET"
	}
	if row.ReNotifyFlag != noMark {
		t.RetryIf = strings.TrimSpace(row.ReNotifyFlag)
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
