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

// Keys of lmstfy, and ours beside them.
const (
	lmstfyTimer  = "timer_set"
	lmstfyReady  = "q/"
	lmstfyTokens = "tk/"
	lmstfyLimits = "__throttler_keys__"

	lmstfyClaims = "wakecall_claims"
	lmstfyNumber = "wakecall_number"
)

var (
	//go:embed lmstfy_claim.lua
	lmstfyClaimSource string

	lmstfyClaim = redis.NewScript(lmstfyClaimSource)
)

// Lmstfy is the Redis of a pool of lmstfy.
type Lmstfy struct {
	Redis     *redis.Client
	Pool      string
	Namespace registry.Topic                       // with the settings of all queues
	TopicOf   func(namespace, queue string) string // where the gateway has the jobs of a queue

	found []string // the keys of ready queues
}

// Topics implements Old.
func (l *Lmstfy) Topics(context.Context) ([]registry.Topic, error) {
	return []registry.Topic{l.Namespace}, nil
}

// Lock implements Old.
func (l *Lmstfy) Lock(ctx context.Context) error { return alone(ctx, l.Redis) }

// Waiting implements Old.
func (l *Lmstfy) Waiting(ctx context.Context) (int, error) {
	queues, err := scan(ctx, l.Redis, lmstfyReady+"*")
	if err != nil {
		return 0, err
	}
	return length(ctx, l.Redis, queues, []string{lmstfyTimer}, []string{lmstfyClaims})
}

// Claim implements Old. It looks for ready queues when those that it knows are empty: each job has a key of its own, so
// a scan of a million jobs takes as long as many claims.
func (l *Lmstfy) Claim(ctx context.Context, n int) (jobs []Job, err error) {
	if l.found != nil {
		if jobs, err = l.claimAny(ctx, l.found, n); len(jobs) > 0 || err != nil {
			return jobs, err
		}
	}
	if l.found, err = scan(ctx, l.Redis, lmstfyReady+"*"); err != nil {
		return nil, err
	}
	return l.claimAny(ctx, l.found, n)
}

func (l *Lmstfy) claimAny(ctx context.Context, queues []string, n int) ([]Job, error) {
	for _, key := range append(queues[:len(queues):len(queues)], lmstfyTimer) {
		source := strings.TrimPrefix(key, lmstfyReady)
		if key == lmstfyTimer {
			source = "timer"
		}
		if jobs, err := l.claim(ctx, key, source, n); err != nil || len(jobs) > 0 {
			return jobs, err
		}
	}
	return nil, nil
}

// claim claims jobs of one queue, and skips those that are not ours to take.
func (l *Lmstfy) claim(ctx context.Context, key, source string, n int) (jobs []Job, err error) {
	for skip := int64(0); ; {
		keys := []string{lmstfyClaims, lmstfyNumber, key}
		reply, err := lmstfyClaim.Run(ctx, l.Redis, keys, n, skip, source).Slice()
		if err != nil {
			return nil, fmt.Errorf("claim jobs of %s: %w", key, err)
		}
		skipped, _ := reply[1].(int64)
		for ; len(reply) > 3; reply = reply[2:] {
			job, err := l.job(reply[2].(string), reply[3].(string))
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, job)
		}
		left, err := l.length(ctx, key)
		if len(jobs) > 0 || err != nil || left <= skipped {
			return jobs, err
		}
		skip = skipped
	}
}

func (l *Lmstfy) length(ctx context.Context, key string) (int64, error) {
	if key == lmstfyTimer {
		return l.Redis.ZCard(ctx, key).Result()
	}
	return l.Redis.LLen(ctx, key).Result()
}

// Left implements Old.
func (l *Lmstfy) Left(ctx context.Context) (jobs []Job, err error) {
	claims, err := l.Redis.HGetAll(ctx, lmstfyClaims).Result()
	if err != nil {
		return nil, fmt.Errorf("read the claims: %w", err)
	}
	for name, claim := range claims {
		job, err := l.job(name, claim)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// Drop implements Old. A job's id is its own: lmstfy never uses it again.
func (l *Lmstfy) Drop(ctx context.Context, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	names := make([]string, len(jobs))
	for i, job := range jobs {
		names[i] = job.Key.(string)
	}
	return l.Redis.HDel(ctx, lmstfyClaims, names...).Err()
}

// versionOne begins the ids of jobs with attributes, which are stored as JSON.
const versionOne = "1"

// job is a claim as a push.
func (l *Lmstfy) job(name, claim string) (Job, error) {
	names, parts := strings.Split(name, "/"), strings.SplitN(claim, " ", 5)
	if len(names) != 3 || len(parts) != 5 {
		return Job{}, fmt.Errorf("the claim of %q is not one", name)
	}
	due, err1 := strconv.ParseFloat(parts[1], 64)
	tries, err2 := strconv.Atoi(parts[2])
	expires, err3 := strconv.ParseInt(parts[3], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Job{}, fmt.Errorf("the claim of %q is not one: %w", name, err)
	}
	p := queue.Push{
		Topic: l.TopicOf(names[0], names[1]), ID: names[2], Body: []byte(parts[4]), Priority: queue.Normal,
		DueAt: time.UnixMilli(int64(due * 1000)), MaxAttempts: tries,
		Via: "import lmstfy " + l.Redis.Options().Addr + " " + parts[0],
	}
	if expires > 0 {
		p.ExpiresAt = time.UnixMilli(expires)
	}
	if len(p.ID) == 27 && strings.HasPrefix(p.ID, versionOne) {
		var stored struct {
			Body       []byte            `json:"body"`
			Attributes map[string]string `json:"attributes"`
		}
		if json.Unmarshal(p.Body, &stored) == nil {
			p.Body, p.Headers = stored.Body, stored.Attributes
		}
	}
	p.ContentType = queue.TypeOf(p.Body)
	return Job{Key: name, Push: p}, nil
}

// LmstfyToken is a token of a namespace, with its limit.
type LmstfyToken struct {
	Namespace, Token, Description string
	Read, Write, Interval         int64 // of the limit; 0: none
}

// Tokens are those of the pool.
func (l *Lmstfy) Tokens(ctx context.Context) (list []LmstfyToken, err error) {
	keys, err := scan(ctx, l.Redis, lmstfyTokens+l.Pool+"/*")
	if err != nil {
		return nil, err
	}
	limits, err := l.Redis.HGetAll(ctx, lmstfyLimits).Result()
	if err != nil {
		return nil, fmt.Errorf("read the limits: %w", err)
	}
	for _, key := range keys {
		tokens, err := l.Redis.HGetAll(ctx, key).Result()
		if err != nil {
			return nil, fmt.Errorf("read the tokens %s: %w", key, err)
		}
		namespace := strings.TrimPrefix(key, lmstfyTokens+l.Pool+"/")
		for token, description := range tokens {
			t := LmstfyToken{Namespace: namespace, Token: token, Description: description}
			if limit, ok := limits[l.Pool+"/"+namespace+"/"+token]; ok {
				if err := json.Unmarshal([]byte(limit), &t); err != nil {
					return nil, fmt.Errorf("the limit of a token of %s: %w", namespace, err)
				}
			}
			list = append(list, t)
		}
	}
	return list, nil
}
