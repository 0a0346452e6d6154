package health

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/queue"
)

// Kind names a kind of problem of a shard.
type Kind string

// The kinds of problems.
const (
	Down       Kind = "down"        // DownAfter pings in a row failed
	Partial    Kind = "partial"     // pings are answered, but a part (a Cluster's master) does not answer INFO
	Slow       Kind = "slow"        // the 99th percentile of a minute's pings is over SlowPing
	Memory     Kind = "memory"      // over MemoryShare of maxmemory
	Eviction   Kind = "eviction"    // a maxmemory-policy that deletes jobs
	WriteError Kind = "write_error" // the append-only file or a snapshot cannot be written
	LinkDown   Kind = "link_down"   // a replica has lost its master
	Clock      Kind = "clock"       // more than ClockOff from this host's
	Stepped    Kind = "stepped"     // the clock jumped by more than ClockStep
	Restarted  Kind = "restarted"   // another server process answers, or the data is older than before

	Forbidden Kind = "forbidden" // its user lacks rights
	Settings  Kind = "settings"  // hosts differ in settings that should be the same

	Version   Kind = "version"   // older than OldestRedis
	NoAOF     Kind = "aof"       // the append-only file is off
	Unlimited Kind = "maxmemory" // there is no maxmemory
	HasJobs   Kind = "jobs"      // it holds jobs already
)

// Severity says how bad a problem is.
type Severity int

// The severities.
const (
	Hint     Severity = iota // relevant when adding a shard
	Warning                  // it may become Critical
	Critical                 // jobs are refused, lost or late
)

// Problem is a problem of a shard.
type Problem struct {
	Kind     Kind
	Severity Severity
	Detail   string
	Advice   string
	Off      time.Duration // of a clock
}

// rule judges one aspect of a shard's report about itself.
type rule struct {
	kind     Kind
	severity Severity
	watched  bool // it can begin while a shard is in use
	judge    func(h queue.ShardHealth) (wrong bool, detail string)
	advice   string
}

const setPolicy = "Set noeviction: redis-cli CONFIG SET maxmemory-policy noeviction, and in redis.conf"

var rules = []rule{
	{Forbidden, Critical, true, func(h queue.ShardHealth) (bool, string) { return h.Forbidden, h.Err },
		"Grant its user what Wakecall needs: ACL SETUSER NAME ~wk:* &wk:* +@all -@admin. Until then the shard takes no " +
			"push, and its jobs are not called"},
	{Settings, Warning, true, func(h queue.ShardHealth) (bool, string) { return h.Differ != "", h.Differ },
		"Give all hosts the same priorities and the same data_dir/secret-key, and restart them"},
	{Version, Critical, false, func(h queue.ShardHealth) (bool, string) {
		return TooOld(h.Version), "Redis " + h.Version + " is too old"
	}, "Install Redis 7.0 or newer, or Valkey"},
	{WriteError, Critical, true, func(h queue.ShardHealth) (bool, string) { return h.WriteError != "", h.WriteError },
		"It refuses every write until its disk has room again; its log says more"},
	{Eviction, Critical, true, func(h queue.ShardHealth) (bool, string) {
		return evicts(h) && h.MaxMemory != 0, "maxmemory-policy is " + h.Policy + ": a full Redis deletes jobs"
	}, setPolicy},
	{Eviction, Warning, false, func(h queue.ShardHealth) (bool, string) {
		return evicts(h) && h.MaxMemory <= 0,
			"maxmemory-policy is " + h.Policy + ": once there is a maxmemory, a full Redis deletes jobs"
	}, setPolicy},
	{LinkDown, Warning, true, func(h queue.ShardHealth) (bool, string) {
		return h.LinkDown, "a replica has lost its master"
	}, "Read INFO replication"},
	{Memory, Warning, true, func(h queue.ShardHealth) (bool, string) {
		return h.MaxMemory > 0 && float64(h.Memory) > MemoryShare*float64(h.MaxMemory),
			fmt.Sprintf("%s of %s are used", printable.Bytes(h.Memory), printable.Bytes(h.MaxMemory))
	}, "Raise maxmemory, or pushes will be refused"},
	{NoAOF, Warning, false, func(h queue.ShardHealth) (bool, string) {
		return !h.AOF, "the append-only file is off: a restart of Redis loses jobs"
	}, "Set it: redis-cli CONFIG SET appendonly yes, and in redis.conf"},
	{Unlimited, Hint, false, func(h queue.ShardHealth) (bool, string) {
		return h.MaxMemory == 0, "there is no maxmemory"
	}, "Set one: the system may kill a Redis that uses up the host's memory"},
	{HasJobs, Hint, false, func(h queue.ShardHealth) (bool, string) {
		return h.Jobs != 0, "it holds " + printable.Count(int(h.Jobs), "job") + " already"
	}, "Register a Redis with one installation only"},
}

func evicts(h queue.ShardHealth) bool { return h.Policy != "" && h.Policy != "noeviction" }

// TooOld reports whether a version of Redis is older than OldestRedis; one that cannot be parsed is not.
func TooOld(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n < OldestRedis
}

// Judge returns the problems in the report of a shard that is up, the worst first.
func Judge(h queue.ShardHealth) []Problem { return judge(h, rules) }

// JudgeWatched returns only problems that can begin while a shard is in use: those of the kinds in Watched.
func JudgeWatched(h queue.ShardHealth) []Problem {
	return judge(h, slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return !r.watched }))
}

// Watched returns the kinds that JudgeWatched finds.
func Watched() []Kind {
	var kinds []Kind
	for _, r := range rules {
		if r.watched {
			kinds = append(kinds, r.kind)
		}
	}
	return kinds
}

func judge(h queue.ShardHealth, rules []rule) []Problem {
	var list []Problem
	for _, r := range rules {
		if wrong, detail := r.judge(h); wrong {
			list = append(list, Problem{Kind: r.kind, Severity: r.severity, Detail: detail, Advice: r.advice})
		}
	}
	return list
}

// JudgeClock judges how far Redis's clock is off; took is the duration of the ping that read it. nil: the clock is
// right.
func JudgeClock(off, took time.Duration) *Problem {
	if off.Abs() <= ClockOff+took {
		return nil
	}
	place := " ahead of"
	if off < 0 {
		place = " behind"
	}
	return &Problem{
		Kind: Clock, Severity: Warning, Detail: "Redis's clock is " + printable.Duration(off.Abs()) + place + " this host's",
		Advice: "Set both by NTP: due times count by Redis's clock", Off: off,
	}
}

// Shard is the part of a queue.Shard that Try needs.
type Shard interface {
	Ping(ctx context.Context) (clock time.Time, took time.Duration, err error)
	Health(ctx context.Context) queue.ShardHealth
}

// Try judges a shard once. It returns problems only for a shard that is up; for others the health says why they are
// not.
func Try(ctx context.Context, s Shard) (queue.ShardHealth, []Problem) {
	h := s.Health(ctx)
	if !h.Up {
		return h, nil
	}
	list := Judge(h)
	sent := time.Now()
	clock, took, err := s.Ping(ctx)
	if err != nil {
		h.Up, h.Err = false, err.Error()
		return h, nil
	}
	if p := JudgeClock(clock.Sub(sent.Add(took/2)), took); p != nil {
		list = append(list, *p)
	}
	return h, list
}
