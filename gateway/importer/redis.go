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

	"github.com/wakecall/wakecall/internal/store"
)

//go:embed drop.lua
var dropSource string

var dropScript = redis.NewScript(dropSource)

//go:embed claim.lua
var claimSource string

// ClaimScript returns the script that claims jobs of an old system, from the part that differs between systems.
func ClaimScript(own string) *redis.Script { return redis.NewScript(claimSource + own) }

// lockName is the prefix of the names of an import's connections to the old Redis. They serve as its lock, which ends
// with the process.
const lockName = "wakecall-import-"

// Connect connects to an old Redis. It does not retry commands: if the reply to a claim is lost, its jobs are found
// among the remaining claims.
func Connect(to *redis.Options) *redis.Client {
	o := *to
	o.MaxRetries, o.ContextTimeoutEnabled, o.ClientName = -1, true, lockName+rand.Text()
	return NewClient(&o)
}

// ErrLocked means that another import from the same system is running.
var ErrLocked = errors.New("another import from this system is running; wait for it to end, or stop it")

// Lock implements Source: it locks a database of an old Redis. If two imports start together, the one with the older
// connection continues.
func (c *Claims) Lock(ctx context.Context) error {
	db := c.Redis
	clients, err := db.ClientList(ctx).Result()
	if err != nil {
		return fmt.Errorf("look for other imports in %s: %w", db.Options().Addr, err)
	}
	ours := strconv.Itoa(db.Options().DB)
	oldest, holder := int64(0), ""
	for line := range strings.Lines(clients) {
		fields := map[string]string{}
		for field := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		id, _ := strconv.ParseInt(fields["id"], 10, 64)
		if strings.HasPrefix(fields["name"], lockName) && fields["db"] == ours && (holder == "" || id < oldest) {
			oldest, holder = id, fields["name"]
		}
	}
	if holder != db.Options().ClientName {
		return fmt.Errorf("%s: %w", db.Options().Addr, ErrLocked)
	}
	return nil
}

// Claims are the claimed jobs in an old Redis: a hash from a job's name to NUMBER REST. A Source whose jobs are in one
// Redis embeds Claims.
type Claims struct {
	Redis  *redis.Client
	Key    string        // key of the hash
	Number string        // key of the last claim's number
	System string        // name of the old system
	Script *redis.Script // see ClaimScript
	Parse  func(name, rest string) (Job, error)
	// Skip is the number of entries to skip in each queue, because the import may not take them. There may be many,
	// such as delay-queue's entries of finished jobs, and each claim would read them all again. If Skip is nil, none
	// are skipped.
	Skip map[string]int64

	counting bool
	counted  int
}

// claimKey identifies a claim in the old Redis.
type claimKey struct {
	*Claims
	number, name string
}

// Take claims at most n jobs from a queue of the old system. It skips entries that the import may not take, until
// c.Skip is cleared. more and args are what the gateway's script has besides the keys and arguments in claim.lua.
func (c *Claims) Take(
	ctx context.Context, n int, from string, more []string, args ...any,
) (jobs []Job, skipped int64, err error) {
	keys := append([]string{c.Key, c.Number, from}, more...)
	skipped, count := c.Skip[from], ""
	if c.counting {
		count = "1"
	}
	for {
		reply, err := c.Script.Run(ctx, c.Redis, keys, append([]any{n, skipped, count}, args...)...).Slice()
		if err != nil {
			return nil, 0, fmt.Errorf("claim jobs of %s in %s: %w", from, c.address(), err)
		}
		if number, ok := reply[0].(int64); ok && c.counting {
			c.counted += int(number)
		}
		skipped, _ = reply[1].(int64)
		found, _ := reply[2].(int64)
		for reply = reply[3:]; len(reply) > 1; reply = reply[2:] {
			job, err := c.job(reply[0].(string), reply[1].(string))
			if err != nil {
				return nil, 0, err
			}
			jobs = append(jobs, job)
		}
		if len(jobs) > 0 || found == 0 {
			if c.Skip != nil {
				c.Skip[from] = skipped
			}
			return jobs, skipped, nil
		}
	}
}

// Count returns how many jobs take, which calls Take for each queue once, would claim, and those that are claimed. It
// changes nothing.
func (c *Claims) Count(ctx context.Context, take func() error) (int, error) {
	c.counting, c.counted = true, 0
	defer func() { c.counting = false; clear(c.Skip) }()
	if err := take(); err != nil {
		return 0, err
	}
	claimed, err := Length(ctx, c.Redis, nil, nil, []string{c.Key})
	return c.counted + claimed, err
}

func (c *Claims) address() string { return c.Redis.Options().Addr }

func (c *Claims) job(name, claim string) (Job, error) {
	number, rest, _ := strings.Cut(claim, " ")
	j, err := c.Parse(name, rest)
	if err != nil {
		return Job{}, fmt.Errorf("parse claim of %q in %s: %w", name, c.address(), err)
	}
	j.Key = claimKey{c, number, name}
	j.Push.Via = "import " + c.System + " " + c.address() + " " + number
	return j, nil
}

// Left implements Source.
func (c *Claims) Left(ctx context.Context) (jobs []Job, err error) {
	all, err := c.Redis.HGetAll(ctx, c.Key).Result()
	if err != nil {
		return nil, fmt.Errorf("read claims in %s: %w", c.address(), err)
	}
	for name, claim := range all {
		j, err := c.job(name, claim)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// Drop implements Source.
func (c *Claims) Drop(ctx context.Context, jobs []Job) error { return Drop(ctx, jobs) }

// Drop drops the claims of jobs, all claimed together, in any Redis.
func Drop(ctx context.Context, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	first := jobs[0].Key.(claimKey)
	args := []any{first.number}
	for _, job := range jobs {
		args = append(args, job.Key.(claimKey).name)
	}
	return dropScript.Run(ctx, first.Redis, []string{first.Key}, args...).Err()
}

// A Timed claim is CLAIMED DUE TTR REST, with times in milliseconds.
type Timed struct {
	At, Due time.Time
	TTR     time.Duration
	Rest    string
}

// ParseTimed parses a Timed claim.
func ParseTimed(text string) (c Timed, err error) {
	parts := strings.SplitN(text, " ", 4)
	if len(parts) != 4 {
		return c, ErrClaim
	}
	var ms [3]int64
	for i := range ms {
		if ms[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return c, err
		}
	}
	return Timed{time.UnixMilli(ms[0]), time.UnixMilli(ms[1]), time.Duration(ms[2]) * time.Millisecond, parts[3]}, nil
}

// Job returns the claimed job.
func (c *Timed) Job(topic, id string, body []byte) Job {
	return Job{Claimed: c.At, Push: store.Push{
		Topic: topic, ID: id, Body: body, ContentType: store.TypeOf(body), Priority: store.Normal, DueAt: c.Due,
		TTR: c.TTR,
	}}
}

// ErrClaim is returned for a claim that no import has written.
var ErrClaim = errors.New("too few fields")

// Scan returns the keys that match a pattern.
func Scan(ctx context.Context, db *redis.Client, pattern string) (keys []string, err error) {
	found := db.Scan(ctx, 0, pattern, 1000).Iterator()
	for found.Next(ctx) {
		keys = append(keys, found.Val())
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("list keys %s: %w", pattern, err)
	}
	return keys, nil
}

// Length returns the sum of the lengths of lists, sorted sets and hashes.
func Length(ctx context.Context, db *redis.Client, lists, sets, hashes []string) (sum int, err error) {
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
		return 0, fmt.Errorf("count jobs in %s: %w", db.Options().Addr, err)
	}
	for _, n := range counts {
		sum += int(n.(*redis.IntCmd).Val())
	}
	return sum, nil
}
