package importer

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed drop.lua
	dropSource string

	dropScript = redis.NewScript(dropSource)
)

// lockName begins the name of an import's connections to the old Redis. They are its lock: it ends with its process.
const lockName = "wakecall-import-"

// Connect connects to an old Redis. A command is sent once: a claim whose answer is lost is found among those that are
// left.
func Connect(o *redis.Options) *redis.Client {
	o.MaxRetries, o.ContextTimeoutEnabled, o.ClientName = -1, true, lockName+rand.Text()
	return redis.NewClient(o)
}

// ErrLocked says that another import from the same system is running.
var ErrLocked = errors.New("another import from this system is running: wait until it has ended, or stop it")

// alone locks an old Redis. Of two imports that begin together, the one whose connection is older goes on.
func alone(ctx context.Context, db *redis.Client) error {
	clients, err := db.ClientList(ctx).Result()
	if err != nil {
		return fmt.Errorf("look for other imports in %s: %w", db.Options().Addr, err)
	}
	oldest, holder := int64(0), ""
	for line := range strings.Lines(clients) {
		fields := map[string]string{}
		for field := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		id, _ := strconv.ParseInt(fields["id"], 10, 64)
		if strings.HasPrefix(fields["name"], lockName) && (holder == "" || id < oldest) {
			oldest, holder = id, fields["name"]
		}
	}
	if holder != db.Options().ClientName {
		return fmt.Errorf("%s: %w", db.Options().Addr, ErrLocked)
	}
	return nil
}

// claims are claimed jobs in an old Redis: a hash from their names to NUMBER CLAIMED DUE TTR REST, with times in ms.
type claims struct {
	redis  *redis.Client
	key    string
	system string
}

// A claim is one that a script has made.
type claim struct {
	name, number string
	at, due      time.Time
	ttr          time.Duration
	rest         string
}

func parseClaim(name, text string) (c claim, err error) {
	parts := strings.SplitN(text, " ", 5)
	if len(parts) != 5 {
		return c, fmt.Errorf("the claim of %q is not one", name)
	}
	var ms [3]int64
	for i := range ms {
		if ms[i], err = strconv.ParseInt(parts[1+i], 10, 64); err != nil {
			return c, fmt.Errorf("the claim of %q is not one: %w", name, err)
		}
	}
	return claim{
		name: name, number: parts[0], at: time.UnixMilli(ms[0]), due: time.UnixMilli(ms[1]),
		ttr: time.Duration(ms[2]) * time.Millisecond, rest: parts[4],
	}, nil
}

// key of a claim in the old Redis.
type claimKey struct{ number, name string }

// job completes what job made of a claim.
func (c *claims) job(name, text string, job func(claim) (Job, error)) (Job, error) {
	claim, err := parseClaim(name, text)
	if err != nil {
		return Job{}, err
	}
	j, err := job(claim)
	j.Key, j.Claimed = claimKey{claim.number, name}, claim.at
	j.Push.DueAt, j.Push.TTR = claim.due, claim.ttr
	j.Push.Via = "import " + c.system + " " + c.redis.Options().Addr + " " + claim.number
	return j, err
}

func (c *claims) left(ctx context.Context, job func(claim) (Job, error)) (jobs []Job, err error) {
	all, err := c.redis.HGetAll(ctx, c.key).Result()
	if err != nil {
		return nil, fmt.Errorf("read the claims: %w", err)
	}
	for name, text := range all {
		j, err := c.job(name, text, job)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// claimed are the jobs in a claim script's result: the claim's number, how many entries were skipped, then name and
// claim of each job.
func (c *claims) claimed(reply []any, job func(claim) (Job, error)) (jobs []Job, skipped int64, err error) {
	skipped, _ = reply[1].(int64)
	for ; len(reply) > 3; reply = reply[2:] {
		j, err := c.job(reply[2].(string), reply[3].(string), job)
		if err != nil {
			return nil, 0, err
		}
		jobs = append(jobs, j)
	}
	return jobs, skipped, nil
}

// drop drops jobs of one claim.
func (c *claims) drop(ctx context.Context, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	args := []any{jobs[0].Key.(claimKey).number}
	for _, job := range jobs {
		args = append(args, job.Key.(claimKey).name)
	}
	return dropScript.Run(ctx, c.redis, []string{c.key}, args...).Err()
}

// scan lists the keys of a pattern.
func scan(ctx context.Context, db *redis.Client, pattern string) (keys []string, err error) {
	found := db.Scan(ctx, 0, pattern, 1000).Iterator()
	for found.Next(ctx) {
		keys = append(keys, found.Val())
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("list the keys %s: %w", pattern, err)
	}
	return keys, nil
}

// length is the sum of the lengths of lists, sorted sets and hashes.
func length(ctx context.Context, db *redis.Client, lists, sets, hashes []string) (sum int, err error) {
	counts, err := db.Pipelined(ctx, func(c redis.Pipeliner) error {
		for _, key := range lists {
			c.LLen(ctx, key)
		}
		for _, key := range sets {
			c.ZCard(ctx, key)
		}
		for _, key := range hashes {
			c.HLen(ctx, key)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("count the jobs in %s: %w", db.Options().Addr, err)
	}
	for _, n := range counts {
		sum += int(n.(*redis.IntCmd).Val())
	}
	return sum, nil
}
