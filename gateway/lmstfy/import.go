package lmstfy

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// lmstfy's keys, and the import's own keys.
const (
	keyTimer  = "timer_set"
	keyReady  = "q/"
	keyDead   = "d/"
	keyTokens = "tk/"
	keyLimits = "__throttler_keys__"

	keyClaims = "wakecall_claims"
	keyNumber = "wakecall_number"
)

//go:embed claim.lua
var claimSource string

func importFlags(f *pflag.FlagSet) importer.Open {
	url := importer.RedisFlag(f, "redis://:pw@host:6379/0")
	pool := f.String("pool", "", "`NAME` of the pool in this Redis (default: the first of "+keyPools+")")
	admin := f.String("admin-redis", "",
		"`URL` of lmstfy's AdminRedis, with its database: it has the tokens and limits of all pools")
	return func(_ context.Context, setting func(string) string) (importer.Source, func(), error) {
		jobs, err := url()
		if err != nil {
			return nil, nil, err
		}
		if *admin == "" {
			return nil, nil, importer.FlagErrorf("--admin-redis is required: the section AdminRedis of lmstfy's " +
				"configuration has its address and database")
		}
		tokens, err := importer.ParseRedis("--admin-redis", *admin)
		if err != nil {
			return nil, nil, err
		}
		pools := poolsOf(setting)
		name := cmp.Or(*pool, pools[0])
		if !slices.Contains(pools, name) {
			return nil, nil, fmt.Errorf("%s has no pool %q: add it there first", keyPools, name)
		}
		s := newSource(importer.Connect(jobs), importer.NewClient(tokens), pools, name)
		return s, func() { _, _ = s.Redis.Close(), s.admin.Close() }, nil
	}
}

// source is the Redis of a pool of an lmstfy.
type source struct {
	*importer.Claims
	admin *redis.Client // lmstfy's AdminRedis, with the tokens and limits of all pools
	pools poolList
	pool  string
	found []string // keys of non-empty ready queues; nil: not read yet

	options *importer.Options
	report  *importer.Report
	known   map[oldToken]bool // imported tokens
	read    time.Time         // when the tokens were read
}

func newSource(db, admin *redis.Client, pools poolList, pool string) *source {
	s := &source{admin: admin, pools: pools, pool: pool, known: map[oldToken]bool{}}
	s.Claims = &importer.Claims{
		Redis: db, Key: keyClaims, Number: keyNumber, System: "lmstfy", Script: importer.ClaimScript(claimSource),
		Parse: s.job, Skip: map[string]int64{},
	}
	return s
}

// Topics implements importer.Source.
func (s *source) Topics(context.Context) ([]registry.Topic, error) {
	return []registry.Topic{s.pools.namespace(s.pool)}, nil
}

// Prepare implements importer.Preparer.
func (s *source) Prepare(ctx context.Context, o *importer.Options, r *importer.Report) error {
	s.options, s.report = o, r
	queues, err := importer.Scan(ctx, s.Redis, keyReady+"*")
	if err != nil {
		return err
	}
	r.Queues = len(queues)
	if err := s.importTokens(ctx); err != nil {
		return err
	}
	if r.Tokens == 0 {
		o.Logger.Warn("no tokens of the pool; --admin-redis must be the address and database of lmstfy's AdminRedis",
			"pool", s.pool, "admin_redis", s.admin.Options().Addr, "database", s.admin.Options().DB)
	}
	return nil
}

// importTokens imports the tokens of the pool that are not known yet, with their limits. Those that exist in Wakecall
// are kept.
func (s *source) importTokens(ctx context.Context) error {
	list, err := s.tokens(ctx)
	if err != nil {
		return err
	}
	s.read, s.report.Tokens = time.Now(), len(list)
	if s.options.DryRun {
		return nil
	}
	tokens := NewTokens(s.options.Registry)
	for _, t := range list {
		if s.known[t] {
			continue
		}
		if err := s.importToken(ctx, tokens, &t); err != nil {
			return fmt.Errorf("import token of namespace %s: %w", t.namespace, err)
		}
		s.known[t] = true
	}
	return nil
}

func (s *source) importToken(ctx context.Context, tokens *Tokens, t *oldToken) error {
	err := tokens.Add(ctx, s.pool, t.namespace, t.text, t.description)
	if err != nil && !errors.Is(err, ErrTokenExists) {
		return err
	}
	if t.limit.Interval <= 0 {
		return nil
	}
	err = tokens.SetLimit(ctx, s.pool, t.namespace, t.text, &t.limit, false)
	if errors.Is(err, ErrLimitExists) {
		return nil
	}
	return err
}

// Waiting implements importer.Source.
func (s *source) Waiting(ctx context.Context) (int, error) {
	queues, err := importer.Scan(ctx, s.Redis, keyReady+"*")
	if err != nil {
		return 0, err
	}
	return importer.Length(ctx, s.Redis, queues, []string{keyTimer}, []string{keyClaims})
}

// Dead implements importer.DeadCounter.
func (s *source) Dead(ctx context.Context) (int, error) {
	queues, err := importer.Scan(ctx, s.Redis, keyDead+"*")
	if err != nil {
		return 0, err
	}
	return importer.Length(ctx, s.Redis, queues, nil, nil)
}

// Count implements importer.Counter.
func (s *source) Count(ctx context.Context) (int, error) {
	defer func() { s.found = nil }()
	return s.Claims.Count(ctx, func() (err error) {
		if s.found, err = importer.Scan(ctx, s.Redis, keyReady+"*"); err == nil {
			_, err = s.claimAny(ctx, importer.CountStep)
		}
		return err
	})
}

// tokensEvery is how long a token that was created in lmstfy during an import may be missing in Wakecall.
const tokensEvery = 10 * time.Second

// Claim implements importer.Source. It scans for ready queues only after it has emptied the known ones and the timer:
// every job is a key, so the scan of a million jobs takes as long as many claims.
func (s *source) Claim(ctx context.Context, n int) (jobs []importer.Job, err error) {
	if s.options != nil && time.Since(s.read) > tokensEvery {
		if err := s.importTokens(ctx); err != nil {
			return nil, err
		}
	}
	if s.found != nil {
		if jobs, err = s.claimAny(ctx, n); len(jobs) > 0 || err != nil {
			return jobs, err
		}
	}
	found, err := importer.Scan(ctx, s.Redis, keyReady+"*")
	if err != nil {
		return nil, err
	}
	s.found = append([]string{}, found...) // not nil, even if there are none
	clear(s.Skip)
	return s.claimAny(ctx, n)
}

// claimAny claims jobs from the first queue that has some. It forgets the queues before it, since there may be as many
// queues as jobs.
func (s *source) claimAny(ctx context.Context, n int) ([]importer.Job, error) {
	for ; len(s.found) > 0; s.found = s.found[1:] {
		name := strings.TrimPrefix(s.found[0], keyReady)
		if jobs, _, err := s.Take(ctx, n, s.found[0], nil, name); err != nil || len(jobs) > 0 {
			return jobs, err
		}
	}
	jobs, _, err := s.Take(ctx, n, keyTimer, nil, "timer")
	return jobs, err
}

// job converts the claim of NS/Q/ID to a push.
func (s *source) job(name, claim string) (importer.Job, error) {
	names, parts := strings.Split(name, "/"), strings.SplitN(claim, " ", 4)
	if len(names) != 3 || len(parts) != 4 {
		return importer.Job{}, importer.ErrClaim
	}
	due, err1 := strconv.ParseFloat(parts[0], 64)
	tries, err2 := strconv.Atoi(parts[1])
	expires, err3 := strconv.ParseInt(parts[2], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return importer.Job{}, err
	}
	p := store.Push{
		Topic: s.pools.topicOf(s.pool, names[0], names[1]), ID: names[2], Body: []byte(parts[3]),
		Priority: store.Normal, DueAt: time.UnixMilli(int64(due * 1000)), MaxAttempts: tries,
	}
	if expires > 0 {
		p.ExpiresAt = time.UnixMilli(expires)
	}
	if len(p.ID) == len(withAttributes)+ulid.EncodedSize && strings.HasPrefix(p.ID, withAttributes) {
		var stored struct {
			Body       []byte            `json:"body"`
			Attributes map[string]string `json:"attributes"`
		}
		if json.Unmarshal(p.Body, &stored) == nil {
			p.Body, p.Headers = stored.Body, stored.Attributes
		}
	}
	p.ContentType = store.TypeOf(p.Body)
	return importer.Job{Push: p}, nil
}

// oldToken is a token of a namespace, with its limit.
type oldToken struct {
	namespace, text, description string
	limit                        Limit // zero: no limit
}

// tokens returns the tokens of the pool.
func (s *source) tokens(ctx context.Context) (list []oldToken, err error) {
	prefix := keyTokens + s.pool + "/"
	keys, err := importer.Scan(ctx, s.admin, prefix+"*")
	if err != nil {
		return nil, err
	}
	limits, err := s.admin.HGetAll(ctx, keyLimits).Result()
	if err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	for _, key := range keys {
		tokens, err := s.admin.HGetAll(ctx, key).Result()
		if err != nil {
			return nil, fmt.Errorf("read tokens %s: %w", key, err)
		}
		namespace := strings.TrimPrefix(key, prefix)
		for text, description := range tokens {
			t := oldToken{namespace: namespace, text: text, description: description}
			if limit, ok := limits[s.pool+"/"+namespace+"/"+text]; ok {
				if err := json.Unmarshal([]byte(limit), &t.limit); err != nil {
					return nil, fmt.Errorf("parse limit of a token of %s: %w", namespace, err)
				}
			}
			list = append(list, t)
		}
	}
	return list, nil
}
