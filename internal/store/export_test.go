package store

import (
	"context"
	"sync/atomic"
	"time"
)

// What tests of this package use beside its interface.

func (s *Shard) ComposeForTest() func(*Script) string { return s.compose }

func (s *Shard) CountedForTest() *atomic.Pointer[jobCount] { return &s.counted }

func (s *Shard) CtxForTest() context.Context { return s.ctx }

func (s *Shard) ForgetTopicsForTest() { s.forgetTopics() }

func (s *Shard) JobsForTest(a0 context.Context, a1 *jobCount) error { return s.jobs(a0, a1) }

func (s *Shard) MarkDownForTest(a0 int, a1 error) { s.markDown(a0, a1) }

func (s *Shard) NodesForTest() []*bucketState { return s.nodes }

func (s *Shard) ReservedForTest(a0 any, a1 string) (Reserved, error) { return s.reserved(a0, a1) }

func (s *Shard) RestoreForTest(a0 context.Context, a1 int, a2 []*Moving) error {
	return s.restore(a0, a1, a2)
}

func (s *Shard) StoreAllForTest(a0 int, a1 Durability, a2 []Push, a3 time.Duration) (results []Result, unsafe error) {
	return s.storeAll(a0, a1, a2, a3)
}

func (s *Shard) URLForTest() string { return s.url }

func (c *TopicConf) AppendToForTest(a0 []any) []any { return c.appendTo(a0) }

const AwaitFor = awaitFor

func (b *bucketState) ClockForTest() *atomic.Pointer[clockReading] { return &b.clock }

func (b *bucketState) DownForTest() *atomic.Bool { return &b.down }

func (b *bucketState) ProbingForTest() *atomic.Bool { return &b.probing }

var ChangeScript = changeScript

func (c *clockReading) ServerForTest() int64 { return c.server }

var ConfigureScript = configureScript

var Connect = connect

var DeadScript = deadScript

var DeleteScript = deleteScript

var DropScript = dropScript

const DropStep = dropStep

const Durabilities = durabilities

var ErrTooLate = errTooLate

var FormatKey = formatKey

var IdentityKey = identityKey

type JobCount = jobCount

func (c *jobCount) JobsForTest() int64 { return c.jobs }

const LargeJobs = largeJobs

const LongBody = longBody

const MaxReplicaJobs = maxReplicaJobs

var ParseInfo = parseInfo

var ParseRecord = parseRecord

var PullChannel = pullChannel

var PushEarlyScript = pushEarlyScript

var PushScript = pushScript

type Record = record

func (r record) DueForTest() *time.Time { return &r.due }

func (r record) PairsForTest() map[string]string { return r.pairs }

func (r record) PriorityForTest() Priority { return r.priority }

func (r record) StateForTest() string { return r.state }

var ReserveScript = reserveScript

var RestoreScript = restoreScript

var SettleByIDScript = settleByIDScript

var SettleScript = settleScript

type TakeBatch = takeBatch

func (b *takeBatch) ArgsForTest() []any { return b.args }

func (b *takeBatch) CallForTest() error { return b.call() }

func (b *takeBatch) GroupsForTest() []*takeGroup { return b.groups }

func (b *takeBatch) RecoverForTest() { b.recover() }

var TakeByIDScript = takeByIDScript

func (g *takeGroup) JobsForTest() []Job { return g.jobs }

const TakePattern = takePattern

var TakeScript = takeScript

const Waiting = waiting
