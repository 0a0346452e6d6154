package store

import (
	"context"
	"log/slog"
	"syscall"
	"time"
)

// ShardConfig is a shard's entry in the registry.
type ShardConfig struct {
	Name  string
	URL   string // as in redis.nodes of the configuration
	State string // active, draining (takes no new jobs) or offline
	// Identity is the expected identity of the shard's data, see identity.go. "": any.
	Identity string
	Former   string // earlier names of the shard, separated by spaces
}

// Control is called with the address of a connection before it is made.
type Control = func(ctx context.Context, network, address string, c syscall.RawConn) error

// Options of a Queue. Zero values mean the defaults named here.
type Options struct {
	Timeout  time.Duration // of one Redis command, 2 s
	PoolSize int           // connections to each server, go-redis's default
	Buckets  int           // parts of a Cluster, 16; must stay the same for the life of its data
	Logger   *slog.Logger
	// Accepted is called with every batch of pushes that a shard answered, before their callers get the answer: an
	// error fails all pushes that were stored. It may be called from several goroutines.
	Accepted func([]Push, []Result) error
	// Refused is called with the topic of each push that is answered with an UnavailableError, and its reason, unless
	// the job is stored. It must return at once. nil: they are not counted.
	Refused func(topic, reason string)
	// Changed is called with every other accepted change of jobs, after it was made and before its caller is
	// answered: an error becomes the caller's. It may be called from several goroutines.
	Changed func(ChangeKind, []Job) error
	// Grouped is called with every accepted change of a whole group in a bucket, as Changed.
	Grouped func(GroupChange) error
	// Scheduled is called with every accepted change of a schedule's cursor, as Changed.
	Scheduled func(ScheduleChange) error
	// Ended is called with every batch of endings that a shard answered, before their callers get the answer: an error
	// fails all that were carried out by their ids, but not the ends of leases. It may be called from several
	// goroutines.
	Ended func([]Ended) error
	// Durability returns a topic's durability. nil: Memory for all.
	Durability func(topic string) Durability
	// Remembers reports whether in a topic a push of a finished job's id is a duplicate (see TopicConf.Remember). Only
	// a queue of several shards calls it, for jobs that were not in their home. nil: never.
	Remembers func(topic string) bool
	// Pinned returns the shard that takes all jobs of a topic while it can, so that their order is exact; "": the jobs
	// are spread. nil: the jobs of all topics are spread.
	Pinned func(topic string) string
	// ShardOf returns the shard of a schedule, whose jobs are moved there when theirs is drained; "": there is no such
	// schedule. nil: there are none.
	ShardOf func(schedule string) string
	// Announced is called after any process called Announce, and when such calls may have been missed. It must return
	// at once. nil: the queue does not listen to announcements.
	Announced func()
	// Settings describes, for people, the settings that should be the same on all hosts. Health publishes it under the
	// name in Host, and reports which other hosts differ. "": neither; no Host: it is not published.
	Host, Settings string
	// AwaitCompared is how long a call may wait for a shard that is being compared with the journals, within its
	// context. 0: not at all, for processes that do other work meanwhile.
	AwaitCompared time.Duration
	// Control may refuse a TCP connection (ControlContext of net.Dialer). nil: none is refused.
	Control Control
	// StandingClock makes scripts take the time from a key, see standing.go, and returns that time: for tests of what
	// follows from time. nil: they take their server's.
	StandingClock func() time.Time
	// Pace limits the moves of jobs out of draining shards. nil: DefaultPace.
	Pace *MovePace
}

// MovePace holds the limits of time for moving.
type MovePace struct {
	Ahead  time.Duration // only jobs that are due later than this are moved
	Within time.Duration // a copy that comes later is refused; half of Ahead
	PutOff time.Duration // how long a stuck job is postponed; more than Ahead
	Stuck  time.Duration // a ready job is stuck when no dispatcher has taken it for so long
}

// DefaultPace moves jobs as production does.
var DefaultPace = MovePace{
	Ahead: 10 * time.Second, Within: 5 * time.Second, PutOff: 20 * time.Second, Stuck: 30 * time.Second,
}
