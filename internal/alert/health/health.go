package health

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/store"
)

// Kind is a kind of problem of a shard.
type Kind string

// The kinds of problems.
const (
	Down       Kind = "down"        // DownAfter consecutive pings failed
	Partial    Kind = "partial"     // pings are answered, but a part (a Cluster's master) does not answer INFO
	Slow       Kind = "slow"        // the 99th percentile of a minute's pings is over SlowPing
	Memory     Kind = "memory"      // over MemoryShare of maxmemory
	Eviction   Kind = "eviction"    // a maxmemory-policy that deletes jobs
	WriteError Kind = "write_error" // the append-only file or a snapshot cannot be written
	LinkDown   Kind = "link_down"   // a replica has lost its master
	Clock      Kind = "clock"       // more than ClockOff from this host's
	Stepped    Kind = "stepped"     // the clock jumped by more than ClockStep
	Restarted  Kind = "restarted"   // another server process answers, or the data is older than before

	Forbidden Kind = "forbidden" // its user lacks permissions
	Settings  Kind = "settings"  // hosts differ in settings that should be the same

	Large Kind = "large" // a topic has more jobs in one key than LargeTopic or LargeOnCluster

	Version   Kind = "version"   // older than OldestRedis
	NoAOF     Kind = "aof"       // the append-only file is off
	Unlimited Kind = "maxmemory" // there is no maxmemory
	HasJobs   Kind = "jobs"      // it holds jobs already
	Unread    Kind = "config"    // its settings cannot be read
)

// Severity is how bad a problem is.
type Severity int

// The severities.
const (
	Hint     Severity = iota // an improvement, or relevant only when adding a shard
	Warning                  // it may become Critical
	Critical                 // jobs are refused, lost or late
)

// Problem is a problem of a shard.
type Problem struct {
	Kind     Kind
	Severity Severity
	Detail   message.Message
	Advice   message.Message
}

// Says returns the detail followed by the advice.
func (p *Problem) Says() message.Message { return message.New("finding.advised", p.Detail, p.Advice) }

// rule judges one aspect of a shard's report about itself.
type rule struct {
	kind     Kind
	severity Severity
	watched  bool // it can begin while a shard is in use
	judge    func(h store.ShardHealth) (wrong bool, detail message.Message)
	advice   string // a code
}

var rules = []rule{
	{Forbidden, Critical, true, func(h store.ShardHealth) (bool, message.Message) {
		return h.Forbidden, message.Plain(h.Err)
	}, "finding.forbidden_advice"},
	{Settings, Warning, true, func(h store.ShardHealth) (bool, message.Message) {
		return h.Differ != "", message.New("finding.settings", h.Differ)
	}, "finding.settings_advice"},
	{Version, Critical, false, func(h store.ShardHealth) (bool, message.Message) {
		return TooOld(h.Version), message.New("finding.version", h.Version)
	}, "finding.version_advice"},
	{WriteError, Critical, true, func(h store.ShardHealth) (bool, message.Message) {
		return h.WriteError != "", message.New("finding.write_error", h.WriteError)
	}, "finding.write_error_advice"},
	{Eviction, Critical, true, func(h store.ShardHealth) (bool, message.Message) {
		return evicts(h) && h.MaxMemory != 0, message.New("finding.eviction", h.Policy)
	}, "finding.eviction_advice"},
	{Eviction, Warning, false, func(h store.ShardHealth) (bool, message.Message) {
		return evicts(h) && h.MaxMemory <= 0, message.New("finding.eviction_later", h.Policy)
	}, "finding.eviction_advice"},
	{LinkDown, Warning, true, func(h store.ShardHealth) (bool, message.Message) {
		return h.LinkDown, message.New("finding.link_down")
	}, "finding.link_down_advice"},
	{Memory, Warning, true, func(h store.ShardHealth) (bool, message.Message) {
		return h.MaxMemory > 0 && float64(h.Memory) > MemoryShare*float64(h.MaxMemory),
			message.New("finding.memory", printable.Bytes(h.Memory), printable.Bytes(h.MaxMemory))
	}, "finding.memory_advice"},
	{Large, Warning, true, func(h store.ShardHealth) (bool, message.Message) {
		return h.LargestJobs > LargeTopic || h.Cluster && h.LargestJobs > LargeOnCluster,
			message.New("finding.large", h.Largest, h.LargestJobs)
	}, "finding.large_advice"},
	{NoAOF, Warning, false, func(h store.ShardHealth) (bool, message.Message) {
		return !h.AOF, message.New("finding.aof")
	}, "finding.aof_advice"},
	{Unlimited, Hint, false, func(h store.ShardHealth) (bool, message.Message) {
		return h.MaxMemory == 0, message.New("finding.maxmemory")
	}, "finding.maxmemory_advice"},
	{HasJobs, Hint, false, func(h store.ShardHealth) (bool, message.Message) {
		return h.Jobs != 0, message.New("finding.jobs", h.Jobs)
	}, "finding.jobs_advice"},
	{Unread, Hint, false, func(h store.ShardHealth) (bool, message.Message) {
		return h.ConfigErr != "", message.New("finding.config", h.ConfigErr)
	}, "finding.config_advice"},
}

func evicts(h store.ShardHealth) bool { return h.Policy != "" && h.Policy != "noeviction" }

// TooOld reports whether a version of Redis is older than OldestRedis. A version that cannot be parsed is not.
func TooOld(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n < OldestRedis
}

// Judge returns the problems in the report of a shard that is up, worst first.
func Judge(h store.ShardHealth) []Problem {
	list := append(judge(h, rules), judgeConfig(h)...)
	slices.SortStableFunc(list, func(a, b Problem) int { return int(b.Severity - a.Severity) })
	return list
}

// JudgeWatched returns only problems of the kinds in Watched, which can begin while a shard is in use.
func JudgeWatched(h store.ShardHealth) []Problem {
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

func judge(h store.ShardHealth, rules []rule) []Problem {
	var list []Problem
	for _, r := range rules {
		if wrong, detail := r.judge(h); wrong {
			list = append(list, Problem{r.kind, r.severity, detail, message.New(r.advice)})
		}
	}
	return list
}

// JudgeClock judges how far off Redis's clock is. took is the duration of the ping that read it. It returns nil if the
// clock is right.
func JudgeClock(off, took time.Duration) *Problem {
	if off.Abs() <= ClockOff+took {
		return nil
	}
	code := "finding.clock_ahead"
	if off < 0 {
		code = "finding.clock_behind"
	}
	detail := message.New(code, printable.Duration(off.Abs()))
	advice := message.New("finding.clock_advice")
	return &Problem{Kind: Clock, Severity: Warning, Detail: detail, Advice: advice}
}

// Shard is the part of a store.Shard that Try needs.
type Shard interface {
	Ping(ctx context.Context) (clock time.Time, took time.Duration, err error)
	Health(ctx context.Context) store.ShardHealth
	ReadConfig(ctx context.Context, h *store.ShardHealth, names ...string)
}

// Try judges a shard once. It returns problems only if the shard is up; otherwise its health has the reason.
func Try(ctx context.Context, s Shard) (store.ShardHealth, []Problem) {
	h := s.Health(ctx)
	if !h.Up {
		return h, nil
	}
	s.ReadConfig(ctx, &h, settingNames()...)
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
