package grape

import (
	"context"
	_ "embed" // for the script
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/registry"
)

//go:embed claim.lua
var claimSource string

func importFlags(f *pflag.FlagSet) importer.Open {
	url := importer.RedisFlag(f, "redis://:pw@host:6379/0")
	group := f.String("namespace", "", "`NAME` that prefixes Grape's keys")
	base64 := f.Bool("base64", false, "bodies are stored in base64, as by earlier versions of Grape")
	return func(context.Context, func(string) string) (importer.Source, func(), error) {
		o, err := url()
		if err != nil {
			return nil, nil, err
		}
		db := importer.Connect(o)
		return newSource(db, *group, *base64), func() { _ = db.Close() }, nil
	}
}

// source is the Redis of a Grape. Its keys begin with its namespace, if it has one.
type source struct {
	*importer.Claims
	group    string           // Grape's namespace
	base64   bool             // bodies are base64, as in earlier versions of Grape
	registry gateway.Registry // stores the gateway's tubes; the gateway rejects commands for others
	created  map[string]bool
}

func newSource(db *redis.Client, group string, base64 bool) *source {
	s := &source{group: group, base64: base64, created: map[string]bool{}}
	s.Claims = &importer.Claims{
		Redis: db, Key: s.key("wakecall:claims"), Number: s.key("wakecall:number"), System: "grape",
		Script: importer.ClaimScript(claimSource), Parse: s.job,
	}
	return s
}

// key returns the full name of one of Grape's keys, or of the import's own.
func (s *source) key(name string) string {
	if s.group == "" {
		return name
	}
	return s.group + ":" + name
}

func (s *source) tubeKey(tube, name string) string { return s.key("tube:" + tube + ":" + name) }

// Topics implements importer.Source.
func (s *source) Topics(context.Context) ([]registry.Topic, error) {
	return []registry.Topic{gateway.Namespace(Namespace, title)}, nil
}

// Prepare implements importer.Preparer.
func (s *source) Prepare(ctx context.Context, o *importer.Options, r *importer.Report) error {
	tubes, err := s.tubes(ctx)
	s.registry, r.Tubes = o.Registry, len(tubes)
	return err
}

// tubes returns the created tubes.
func (s *source) tubes(ctx context.Context) ([]string, error) {
	tubes, err := s.Redis.SMembers(ctx, s.key("tube:set")).Result()
	if err != nil {
		return nil, fmt.Errorf("read tubes: %w", err)
	}
	return tubes, nil
}

// current returns all tubes. It creates new ones in Wakecall, since producers may create tubes at any time.
func (s *source) current(ctx context.Context) ([]string, error) {
	tubes, err := s.tubes(ctx)
	if err != nil {
		return nil, err
	}
	created := func(tube string) bool { return s.created[tube] }
	fresh := slices.DeleteFunc(slices.Clone(tubes), created)
	if len(fresh) == 0 {
		return tubes, nil
	}
	if err := createTubes(ctx, s.registry, fresh...); err != nil {
		return nil, fmt.Errorf("create tubes: %w", err)
	}
	for _, tube := range fresh {
		s.created[tube] = true
	}
	return tubes, nil
}

// Waiting implements importer.Source.
func (s *source) Waiting(ctx context.Context) (int, error) {
	return s.length(ctx, []string{s.Key}, "queue:delay", "queue:retain")
}

// Dead implements importer.DeadCounter: it counts failed jobs.
func (s *source) Dead(ctx context.Context) (int, error) { return s.length(ctx, nil, "queue:failed") }

// length returns the number of jobs in hashes and in these queues of all tubes.
func (s *source) length(ctx context.Context, hashes []string, queues ...string) (int, error) {
	tubes, err := s.tubes(ctx)
	if err != nil {
		return 0, err
	}
	var sets []string
	for _, tube := range tubes {
		for _, queue := range queues {
			sets = append(sets, s.tubeKey(tube, queue))
		}
	}
	return importer.Length(ctx, s.Redis, nil, sets, hashes)
}

// Count implements importer.Counter.
func (s *source) Count(ctx context.Context) (int, error) {
	return s.Claims.Count(ctx, func() error {
		tubes, err := s.tubes(ctx)
		for _, tube := range tubes {
			if _, _, takeErr := s.take(ctx, tube, importer.CountStep); takeErr != nil {
				return takeErr
			}
		}
		return err
	})
}

// take claims jobs of a tube. It also returns how many entries it has skipped.
func (s *source) take(ctx context.Context, tube string, n int) ([]importer.Job, int64, error) {
	more := []string{s.tubeKey(tube, "lock:consume"), s.key("lock:consume:" + tube)}
	return s.Take(ctx, n, s.tubeKey(tube, "queue:delay"), more, s.tubeKey(tube, "job:"), tube+"/")
}

// Limits for retries while a consumer locks its tube, which takes some milliseconds.
const (
	claimTries = 50
	claimPause = 20 * time.Millisecond
)

// Claim implements importer.Source.
func (s *source) Claim(ctx context.Context, n int) ([]importer.Job, error) {
	tubes, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	for range claimTries {
		skipped := int64(0)
		for _, tube := range tubes {
			jobs, left, err := s.take(ctx, tube, n)
			if len(jobs) > 0 || err != nil {
				return jobs, err
			}
			skipped += left
		}
		if skipped == 0 {
			return nil, nil
		}
		pause.For(ctx, claimPause)
	}
	return nil, nil
}

// job converts the claim of TUBE/ID to a push.
func (s *source) job(name, claim string) (importer.Job, error) {
	c, err := importer.ParseTimed(claim)
	if err != nil {
		return importer.Job{}, err
	}
	tube, id, _ := strings.Cut(name, "/")
	body := []byte(c.Rest)
	if s.base64 {
		if body, err = base64.StdEncoding.DecodeString(c.Rest); err != nil {
			return importer.Job{}, fmt.Errorf("body is not base64; import without --base64: %w", err)
		}
	}
	return c.Job(topicOf(tube), id, body), nil
}
