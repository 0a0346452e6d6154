package importer

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var sources embed.FS

func script(name string) *redis.Script {
	source, err := sources.ReadFile(name)
	if err != nil { // a name that is misspelt here
		panic(err)
	}
	return redis.NewScript(string(source))
}

var dropScript = script("drop.lua")

// lockName is the prefix of the names of an import's connections to the old Redis. They are its lock, which ends with
// its process.
const lockName = "wakecall-import-"

// Connect connects to an old Redis. It does not retry commands: a claim whose answer is lost is found among the
// remaining claims.
func Connect(to *redis.Options) *redis.Client {
	o := *to
	o.MaxRetries, o.ContextTimeoutEnabled, o.ClientName = -1, true, lockName+rand.Text()
	return redis.NewClient(&o)
}

// ErrLocked means that another import from the same system is running.
var ErrLocked = errors.New("another import from this system is running: wait until it has ended, or stop it")

// alone locks a database of an old Redis. If two imports start together, the one with the older connection continues.
func alone(ctx context.Context, db *redis.Client) error {
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

// claims are the claimed jobs in an old Redis: a hash from their names to NUMBER REST.
type claims struct {
	redis  *redis.Client
	key    string // key of the hash
	number string // key of the number of the last claim
	system string
	script *redis.Script
	job    func(name, rest string) (Job, error)
	// skip has the number of entries to skip in each queue: those that the import may not take. There may be many, such
	// as delay-queue's entries of finished jobs, and each claim would read them all. nil: none are skipped.
	skip map[string]int64
}

// claimKey identifies a claim in the old Redis.
type claimKey struct {
	*claims
	number, name string
}

// take claims at most n jobs from a queue. It skips entries that the import may not take, until c.skip is cleared. The
// keys of the scripts are claims, number, queue and more; their arguments are n, how many entries to skip, and args. They
// return the number of the claim, how many entries to skip next time, and how many entries they found; then name and
// claim of each job.
func (c *claims) take(
	ctx context.Context, n int, queue string, more []string, args ...any,
) (jobs []Job, skipped int64, err error) {
	keys := append([]string{c.key, c.number, queue}, more...)
	skipped = c.skip[queue]
	for {
		reply, err := c.script.Run(ctx, c.redis, keys, append([]any{n, skipped}, args...)...).Slice()
		if err != nil {
			return nil, 0, fmt.Errorf("claim jobs of %s in %s: %w", queue, c.redis.Options().Addr, err)
		}
		skipped, _ = reply[1].(int64)
		found, _ := reply[2].(int64)
		for reply = reply[3:]; len(reply) > 1; reply = reply[2:] {
			job, err := c.parse(reply[0].(string), reply[1].(string))
			if err != nil {
				return nil, 0, err
			}
			jobs = append(jobs, job)
		}
		if len(jobs) > 0 || found == 0 {
			if c.skip != nil {
				c.skip[queue] = skipped
			}
			return jobs, skipped, nil
		}
	}
}

func (c *claims) parse(name, claim string) (Job, error) {
	number, rest, _ := strings.Cut(claim, " ")
	j, err := c.job(name, rest)
	if err != nil {
		return Job{}, fmt.Errorf("the claim of %q in %s is not one: %w", name, c.redis.Options().Addr, err)
	}
	j.Key = claimKey{c, number, name}
	j.Push.Via = "import " + c.system + " " + c.redis.Options().Addr + " " + number
	return j, nil
}

func (c *claims) left(ctx context.Context) (jobs []Job, err error) {
	all, err := c.redis.HGetAll(ctx, c.key).Result()
	if err != nil {
		return nil, fmt.Errorf("read the claims in %s: %w", c.redis.Options().Addr, err)
	}
	for name, claim := range all {
		j, err := c.parse(name, claim)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// drop drops the claims of jobs that were claimed together.
func drop(ctx context.Context, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	first := jobs[0].Key.(claimKey)
	args := []any{first.number}
	for _, job := range jobs {
		args = append(args, job.Key.(claimKey).name)
	}
	return dropScript.Run(ctx, first.redis, []string{first.key}, args...).Err()
}

// A timed claim is CLAIMED DUE TTR REST, with times in ms.
type timed struct {
	at, due time.Time
	ttr     time.Duration
	rest    string
}

func parseTimed(text string) (c timed, err error) {
	parts := strings.SplitN(text, " ", 4)
	if len(parts) != 4 {
		return c, errClaim
	}
	var ms [3]int64
	for i := range ms {
		if ms[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return c, err
		}
	}
	return timed{time.UnixMilli(ms[0]), time.UnixMilli(ms[1]), time.Duration(ms[2]) * time.Millisecond, parts[3]}, nil
}

var errClaim = errors.New("it has too few parts")

// scan returns the keys that match a pattern.
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

// length returns the sum of the lengths of lists, sorted sets and hashes.
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
