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

// lmstfy's keys, and the import's own keys.
const (
	lmstfyTimer  = "timer_set"
	lmstfyReady  = "q/"
	lmstfyTokens = "tk/"
	lmstfyLimits = "__throttler_keys__"

	lmstfyClaims = "wakecall_claims"
	lmstfyNumber = "wakecall_number"
)

var lmstfyClaim = script("lmstfy_claim.lua")

// Lmstfy is the Redis of a pool of lmstfy.
type Lmstfy struct {
	Redis     *redis.Client
	Admin     *redis.Client // lmstfy's AdminRedis, with the tokens and limits of all pools
	Pool      string
	Namespace registry.Topic                       // has the settings of all queues
	TopicOf   func(namespace, queue string) string // the gateway's topic for jobs of a queue

	claimed *claims  // nil until claims is called
	found   []string // keys of non-empty ready queues; nil: not searched yet
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

// Claim implements Old. It searches for ready queues only after it has emptied the known ones and the timer: each job
// has a key of its own, so a scan of a million jobs takes as long as many claims.
func (l *Lmstfy) Claim(ctx context.Context, n int) (jobs []Job, err error) {
	if l.found != nil {
		if jobs, err = l.claimAny(ctx, n); len(jobs) > 0 || err != nil {
			return jobs, err
		}
	}
	found, err := scan(ctx, l.Redis, lmstfyReady+"*")
	if err != nil {
		return nil, err
	}
	l.found = append([]string{}, found...) // not nil, even if there are none
	clear(l.claims().skip)
	return l.claimAny(ctx, n)
}

// claimAny claims jobs from the first queue that has some, and drops the queues before it: there may be a queue for
// each job.
func (l *Lmstfy) claimAny(ctx context.Context, n int) ([]Job, error) {
	for ; len(l.found) > 0; l.found = l.found[1:] {
		name := strings.TrimPrefix(l.found[0], lmstfyReady)
		if jobs, _, err := l.claims().take(ctx, n, l.found[0], nil, name); err != nil || len(jobs) > 0 {
			return jobs, err
		}
	}
	jobs, _, err := l.claims().take(ctx, n, lmstfyTimer, nil, "timer")
	return jobs, err
}

func (l *Lmstfy) claims() *claims {
	if l.claimed == nil {
		l.claimed = &claims{l.Redis, lmstfyClaims, lmstfyNumber, "lmstfy", lmstfyClaim, l.job, map[string]int64{}}
	}
	return l.claimed
}

// Left implements Old.
func (l *Lmstfy) Left(ctx context.Context) ([]Job, error) { return l.claims().left(ctx) }

// Drop implements Old.
func (l *Lmstfy) Drop(ctx context.Context, jobs []Job) error { return drop(ctx, jobs) }

// versionOne is the prefix of ids of jobs with attributes, which are stored as JSON.
const versionOne = "1"

// job converts the claim of NS/Q/ID to a push.
func (l *Lmstfy) job(name, claim string) (Job, error) {
	names, parts := strings.Split(name, "/"), strings.SplitN(claim, " ", 4)
	if len(names) != 3 || len(parts) != 4 {
		return Job{}, errClaim
	}
	due, err1 := strconv.ParseFloat(parts[0], 64)
	tries, err2 := strconv.Atoi(parts[1])
	expires, err3 := strconv.ParseInt(parts[2], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Job{}, err
	}
	p := queue.Push{
		Topic: l.TopicOf(names[0], names[1]), ID: names[2], Body: []byte(parts[3]), Priority: queue.Normal,
		DueAt: time.UnixMilli(int64(due * 1000)), MaxAttempts: tries,
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
	return Job{Push: p}, nil
}

// LmstfyToken is a token of a namespace, with its limit.
type LmstfyToken struct {
	Namespace, Token, Description string
	Read, Write, Interval         int64 // limit; 0: none
}

// Tokens returns the tokens of the pool.
func (l *Lmstfy) Tokens(ctx context.Context) (list []LmstfyToken, err error) {
	keys, err := scan(ctx, l.Admin, lmstfyTokens+l.Pool+"/*")
	if err != nil {
		return nil, err
	}
	limits, err := l.Admin.HGetAll(ctx, lmstfyLimits).Result()
	if err != nil {
		return nil, fmt.Errorf("read the limits: %w", err)
	}
	for _, key := range keys {
		tokens, err := l.Admin.HGetAll(ctx, key).Result()
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
