package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ShardHealth is a shard's report about itself. Memory, MaxMemory and Jobs are sums over a Cluster's masters.
type ShardHealth struct {
	Name        string
	State       string // active, draining
	Up          bool
	Err         string        // why it is not up
	Latency     time.Duration // of one command
	Version     string
	RunID       string // of the server; of a Cluster's masters, joined
	Memory      int64  // bytes used
	MaxMemory   int64  // bytes; 0: no limit
	Policy      string // maxmemory-policy; anything but noeviction can lose jobs
	AOF         bool   // append-only file on
	WriteError  string // persistence error: append-only file or background save
	LinkDown    bool   // a replica has lost its master
	ReplOffset  int64  // master_repl_offset; it never goes back while nothing is lost
	Jobs        int64
	SmallJobs   int64  // of these, in topics of at most SmallTopic jobs
	Largest     string // the topic with the most jobs
	LargestJobs int64
	Cluster     bool
	Replicas    int64  // connected
	Moved       int64  // jobs recently moved to other shards, see Drain
	Forbidden   bool   // Err says that the user lacks rights
	Differ      string // hosts whose settings differ from this one's, with their settings

	Config    []map[string]string // settings of each master, see ReadConfig
	ConfigErr string              // why they cannot be read

	started, now time.Time // see Server
}

// Ping reads the clock of one of the shard's servers.
func (s *Shard) Ping(ctx context.Context) (clock time.Time, took time.Duration, err error) {
	start := time.Now()
	clock, err = s.client.Time(ctx).Result()
	if err != nil {
		return clock, time.Since(start), fmt.Errorf("ping shard %s: %w", s.name, err)
	}
	return clock, time.Since(start), nil
}

// Health asks a shard about its state.
func (s *Shard) Health(ctx context.Context) ShardHealth {
	h := ShardHealth{Name: s.name, State: s.State()}
	_, h.Cluster = s.client.(*redis.ClusterClient)
	_, took, err := s.Ping(ctx)
	h.Latency = took
	if err == nil {
		err = s.info(ctx, &h)
	}
	if err == nil {
		err = s.Check(ctx)
	}
	if err == nil {
		err = s.countJobs(ctx, &h)
	}
	if err == nil && h.State == "draining" {
		if h.Moved, err = s.client.Get(ctx, Prefix(0)+"moved").Int64(); errors.Is(err, redis.Nil) {
			err = nil
		}
	}
	if err == nil {
		h.Differ, err = s.differ(ctx)
	}
	if h.Up = err == nil; !h.Up {
		h.Err, h.Forbidden = err.Error(), Forbidden(err)
	}
	return h
}

// differ publishes this host's settings, and returns which hosts have others; "" when the shard does not answer. Its
// only error is that the user lacks rights, which the commands in scripts need as well; other problems have findings of
// their own.
func (s *Shard) differ(ctx context.Context) (string, error) {
	host, settings := s.host, s.settings
	if settings == "" {
		host = ""
	}
	o, err := s.buckets[0].SendOnly(ctx, settingsScript, host, settings)
	if Forbidden(err) {
		return "", fmt.Errorf("scripts on shard %s: %w", s.name, err)
	}
	if settings == "" {
		return "", nil
	}
	var list []string
	for pair := range slices.Chunk(Values(o.Value), 2) {
		if len(pair) == 2 && pair[1] != settings {
			list = append(list, fmt.Sprintf("%s has %s", pair[0], pair[1]))
		}
	}
	if len(list) == 0 {
		return "", nil
	}
	slices.Sort(list)
	return strings.Join(list, "; ") + "; this host has " + settings, nil
}

// Forbidden reports whether an error of Redis means that the user lacks rights (ACL). It has a prefix only outside of
// scripts.
func Forbidden(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || err != nil &&
		(strings.Contains(err.Error(), "The user executing the script can't") ||
			strings.Contains(err.Error(), "ACL failure in script"))
}

// Refused reports whether Redis refused a command because of its user or password.
func Refused(err error) bool {
	return Forbidden(err) || redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS")
}

// info sums up INFO of the server, or of a Cluster's masters.
func (s *Shard) info(ctx context.Context, h *ShardHealth) error {
	var mu sync.Mutex
	one := func(ctx context.Context, c *redis.Client) error {
		text, err := c.Info(ctx, "server", "memory", "persistence", "replication").Result()
		if err != nil {
			return fmt.Errorf("info of shard %s: %w", s.name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		h.add(parseInfo(text))
		return nil
	}
	return eachMaster(ctx, s.client, one)
}

// eachMaster calls ask for the server of a client, or for all masters of a Cluster.
func eachMaster(
	ctx context.Context, client redis.UniversalClient, ask func(context.Context, *redis.Client) error,
) error {
	switch c := client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, ask)
	case *redis.Client:
		return ask(ctx, c)
	}
	return fmt.Errorf("unknown client of type %T", client)
}

func parseInfo(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[k] = v
		}
	}
	return m
}

func (h *ShardHealth) add(m map[string]string) {
	number := func(k string) int64 { n, _ := strconv.ParseInt(m[k], 10, 64); return n }
	h.Version = m["redis_version"]
	if v := m["valkey_version"]; v != "" {
		h.Version += " (Valkey " + v + ")"
	}
	if usec, up := number("server_time_usec"), number("uptime_in_seconds"); usec > 0 {
		if at := time.UnixMicro(usec).Add(-time.Duration(up-1) * time.Second); at.After(h.started) {
			h.started = at
		}
		h.now = time.UnixMicro(usec)
	}
	ids := append(strings.Fields(h.RunID), m["run_id"])
	slices.Sort(ids) // masters answer in any order
	h.RunID = strings.Join(ids, " ")
	h.Memory += number("used_memory")
	h.MaxMemory += number("maxmemory")
	h.Policy = m["maxmemory_policy"]
	h.AOF = m["aof_enabled"] == "1"
	if m["aof_last_write_status"] == "err" {
		h.WriteError = "the append-only file cannot be written"
	}
	if m["rdb_last_bgsave_status"] == "err" {
		h.WriteError = "the last background save failed"
	}
	h.LinkDown = h.LinkDown || m["master_link_status"] == "down"
	h.ReplOffset += number("master_repl_offset")
	h.Replicas += number("connected_slaves")
}

// ReadConfig reads settings of Redis that INFO does not show. Its user may lack the right to do so.
func (s *Shard) ReadConfig(ctx context.Context, h *ShardHealth, names ...string) {
	var mu sync.Mutex
	args := []any{"CONFIG", "GET"}
	for _, name := range names {
		args = append(args, name)
	}
	err := eachMaster(ctx, s.client, func(ctx context.Context, c *redis.Client) error {
		reply := redis.NewMapStringStringCmd(ctx, args...)
		if err := c.Process(ctx, reply); err != nil {
			return fmt.Errorf("read the settings of shard %s: %w", s.name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		h.Config = append(h.Config, reply.Val())
		return nil
	})
	if err != nil {
		h.ConfigErr = err.Error()
	}
}

// SmallTopic is how many jobs a topic may have for its hash to be a listpack, if the server's settings allow it.
const SmallTopic = 128

// jobCount is a count of a shard's jobs, and how long it took.
type jobCount struct {
	jobs, small int64 // small: in topics of at most SmallTopic jobs
	largest     string
	largestJobs int64
	at          time.Time
	took        time.Duration
}

const (
	countCheap = 20 * time.Millisecond // if counting takes no longer, count each time
	countShare = 20                    // otherwise spend at most this part of the time on it, but
	countPause = 15 * time.Second      // count again after this time: a shard that was slow once may be fast
)

// countJobs counts the jobs of the shard. With many topics it may return an older count, up to a multiple of the time
// that counting took, unless the shard is draining: a draining shard may be removed once it has no jobs.
func (s *Shard) countJobs(ctx context.Context, h *ShardHealth) error {
	c := s.counted.Load()
	if c == nil || s.State() != "active" || c.took <= countCheap ||
		time.Since(c.at) >= min(countPause, countShare*c.took) {
		c = &jobCount{at: time.Now()}
		if err := s.jobs(ctx, c); err != nil {
			return err
		}
		c.took = time.Since(c.at)
		s.counted.Store(c)
	}
	h.Jobs, h.SmallJobs, h.Largest, h.LargestJobs = c.jobs, c.small, c.largest, c.largestJobs
	return nil
}

// jobs counts the jobs of all topics.
func (s *Shard) jobs(ctx context.Context, c *jobCount) error {
	topics := map[string]Stats{}
	for _, b := range s.buckets {
		if err := b.countAs(ctx, countEarlyScript, "", "", topics); err != nil {
			return fmt.Errorf("count the jobs of shard %s: %w", s.name, err)
		}
	}
	for topic, st := range topics {
		n := st.Jobs()
		if IsNamespace(topic) {
			continue
		}
		c.jobs += n
		if n <= SmallTopic {
			c.small += n
		}
		if n > c.largestJobs {
			c.largest, c.largestJobs = topic, n
		}
	}
	return nil
}
