package importer

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

var (
	//go:embed grape_claim.lua
	grapeClaimSource string

	grapeClaim = redis.NewScript(grapeClaimSource)
)

// Grape is the Redis of a Grape. Its keys begin with its namespace, if it has one.
type Grape struct {
	Redis     *redis.Client
	Group     string                   // Grape's namespace
	Base64    bool                     // bodies are stored in base64, as by earlier versions of Grape
	Namespace registry.Topic           // with the settings of all tubes
	TopicOf   func(tube string) string // where the gateway has the jobs of a tube
}

// keys that Grape uses, and ours beside them.
func (g *Grape) key(name string) string {
	if g.Group == "" {
		return name
	}
	return g.Group + ":" + name
}

func (g *Grape) tubeKey(tube, name string) string { return g.key("tube:" + tube + ":" + name) }

func (g *Grape) claims() *claims { return &claims{g.Redis, g.key("wakecall:claims"), "grape"} }

// Topics implements Old.
func (g *Grape) Topics(context.Context) ([]registry.Topic, error) {
	return []registry.Topic{g.Namespace}, nil
}

// Lock implements Old.
func (g *Grape) Lock(ctx context.Context) error { return alone(ctx, g.Redis) }

// Tubes are those that were created.
func (g *Grape) Tubes(ctx context.Context) ([]string, error) {
	tubes, err := g.Redis.SMembers(ctx, g.key("tube:set")).Result()
	if err != nil {
		return nil, fmt.Errorf("read the tubes: %w", err)
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

// A consumer locks its tube for some milliseconds.
const (
	grapeTries = 50
	grapePause = 20 * time.Millisecond
)

// Claim implements Old.
func (g *Grape) Claim(ctx context.Context, n int) ([]Job, error) {
	tubes, err := g.Tubes(ctx)
	if err != nil {
		return nil, err
	}
	for range grapeTries {
		locked := false
		for _, tube := range tubes {
			jobs, busy, err := g.claim(ctx, tube, n)
			if len(jobs) > 0 || err != nil {
				return jobs, err
			}
			locked = locked || busy
		}
		if !locked || ctx.Err() != nil {
			return nil, nil
		}
		pause(ctx, grapePause)
	}
	return nil, nil
}

// claim claims jobs of a tube. locked: a consumer is taking jobs that are due.
func (g *Grape) claim(ctx context.Context, tube string, n int) (jobs []Job, locked bool, err error) {
	for skip := int64(0); ; {
		keys := []string{
			g.claims().key, g.key("wakecall:number"), g.tubeKey(tube, "queue:delay"), g.tubeKey(tube, "lock:consume"),
		}
		reply, err := grapeClaim.Run(ctx, g.Redis, keys, n, skip, g.tubeKey(tube, "job:"), tube+"/").Slice()
		if err != nil {
			return nil, false, fmt.Errorf("claim jobs of the tube %s: %w", tube, err)
		}
		busy, _ := reply[2].(int64)
		locked = locked || busy > 0
		jobs, skipped, err := g.claims().claimed(append(reply[:2:2], reply[3:]...), g.job)
		if len(jobs) > 0 || err != nil || skipped == skip {
			return jobs, locked, err
		}
		skip = skipped
	}
}

// Left implements Old.
func (g *Grape) Left(ctx context.Context) ([]Job, error) { return g.claims().left(ctx, g.job) }

// Drop implements Old.
func (g *Grape) Drop(ctx context.Context, jobs []Job) error { return g.claims().drop(ctx, jobs) }

// job is the claim of TUBE/ID as a push.
func (g *Grape) job(c claim) (Job, error) {
	tube, id, _ := strings.Cut(c.name, "/")
	body := []byte(c.rest)
	if g.Base64 {
		decoded, err := base64.StdEncoding.DecodeString(c.rest)
		if err != nil {
			return Job{}, fmt.Errorf("the body of %s is not base64, import it without --base64: %w", c.name, err)
		}
		body = decoded
	}
	return Job{Push: queue.Push{
		Topic: g.TopicOf(tube), ID: id, Body: body, ContentType: queue.TypeOf(body), Priority: queue.Normal,
	}}, nil
}
