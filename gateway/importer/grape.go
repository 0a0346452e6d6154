package importer

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

var grapeClaim = script("grape_claim.lua")

// Grape is the Redis of a Grape. Its keys begin with its namespace, if it has one.
type Grape struct {
	Redis     *redis.Client
	Group     string                   // Grape's namespace
	Base64    bool                     // bodies are base64, as in earlier versions of Grape
	Namespace registry.Topic           // has the settings of all tubes
	TopicOf   func(tube string) string // the gateway's topic for jobs of a tube
	// Create creates tubes of the gateway, which answers no command for others. Existing ones stay.
	Create func(ctx context.Context, tubes ...string) error

	created map[string]bool
}

// key returns the name of one of Grape's keys, or of the import's own keys.
func (g *Grape) key(name string) string {
	if g.Group == "" {
		return name
	}
	return g.Group + ":" + name
}

func (g *Grape) tubeKey(tube, name string) string { return g.key("tube:" + tube + ":" + name) }

func (g *Grape) claims() *claims {
	return &claims{g.Redis, g.key("wakecall:claims"), g.key("wakecall:number"), "grape", grapeClaim, g.job, nil}
}

// Topics implements Old.
func (g *Grape) Topics(context.Context) ([]registry.Topic, error) {
	return []registry.Topic{g.Namespace}, nil
}

// Lock implements Old.
func (g *Grape) Lock(ctx context.Context) error { return alone(ctx, g.Redis) }

// Tubes returns the created tubes.
func (g *Grape) Tubes(ctx context.Context) ([]string, error) {
	tubes, err := g.Redis.SMembers(ctx, g.key("tube:set")).Result()
	if err != nil {
		return nil, fmt.Errorf("read the tubes: %w", err)
	}
	return tubes, nil
}

// createTubes returns all tubes, and creates those that are new: a producer may create one at any time.
func (g *Grape) createTubes(ctx context.Context) ([]string, error) {
	tubes, err := g.Tubes(ctx)
	if err != nil {
		return nil, err
	}
	created := func(tube string) bool { return g.created[tube] }
	fresh := slices.DeleteFunc(slices.Clone(tubes), created)
	if len(fresh) == 0 {
		return tubes, nil
	}
	if err := g.Create(ctx, fresh...); err != nil {
		return nil, fmt.Errorf("create the tubes: %w", err)
	}
	if g.created == nil {
		g.created = map[string]bool{}
	}
	for _, tube := range fresh {
		g.created[tube] = true
	}
	return tubes, nil
}

// Waiting implements Old.
func (g *Grape) Waiting(ctx context.Context) (int, error) {
	tubes, err := g.Tubes(ctx)
	if err != nil {
		return 0, err
	}
	var sets []string
	for _, tube := range tubes {
		sets = append(sets, g.tubeKey(tube, "queue:delay"), g.tubeKey(tube, "queue:retain"))
	}
	return length(ctx, g.Redis, nil, sets, []string{g.claims().key})
}

// Limits for claiming while a consumer locks its tube, which it does for some milliseconds.
const (
	grapeTries = 50
	grapePause = 20 * time.Millisecond
)

// Claim implements Old.
func (g *Grape) Claim(ctx context.Context, n int) ([]Job, error) {
	tubes, err := g.createTubes(ctx)
	if err != nil {
		return nil, err
	}
	for range grapeTries {
		skipped := int64(0)
		for _, tube := range tubes {
			more := []string{g.tubeKey(tube, "lock:consume"), g.key("lock:consume:" + tube)}
			jobs, left, err := g.claims().take(ctx, n, g.tubeKey(tube, "queue:delay"), more, g.tubeKey(tube, "job:"), tube+"/")
			if len(jobs) > 0 || err != nil {
				return jobs, err
			}
			skipped += left
		}
		if skipped == 0 {
			return nil, nil
		}
		pause(ctx, grapePause)
	}
	return nil, nil
}

// Left implements Old.
func (g *Grape) Left(ctx context.Context) ([]Job, error) { return g.claims().left(ctx) }

// Drop implements Old.
func (g *Grape) Drop(ctx context.Context, jobs []Job) error { return drop(ctx, jobs) }

// job converts the claim of TUBE/ID to a push.
func (g *Grape) job(name, claim string) (Job, error) {
	c, err := parseTimed(claim)
	if err != nil {
		return Job{}, err
	}
	tube, id, _ := strings.Cut(name, "/")
	body := []byte(c.rest)
	if g.Base64 {
		if body, err = base64.StdEncoding.DecodeString(c.rest); err != nil {
			return Job{}, fmt.Errorf("the body is not base64, import it without --base64: %w", err)
		}
	}
	return Job{Claimed: c.at, Push: queue.Push{
		Topic: g.TopicOf(tube), ID: id, Body: body, ContentType: queue.TypeOf(body), Priority: queue.Normal,
		DueAt: c.due, TTR: c.ttr,
	}}, nil
}
