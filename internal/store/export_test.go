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

func (s *Shard) JobsForTest(ctx context.Context, c *jobCount) error { return s.jobs(ctx, c) }

func (s *Shard) URLForTest() string { return s.url }

func (b *Bucket) MarkDownForTest(err error) { b.markDown(err) }

func (b *Bucket) ReservedForTest(reply any, token string) (Reserved, error) {
	return b.reserved(reply, token)
}

func (b *Bucket) StoreAllForTest(d Durability, list []Push, timeout time.Duration) (results []Result, unsafe error) {
	return b.storeAll(d, list, timeout)
}

func (b *Bucket) ClockForTest() *atomic.Pointer[clockReading] { return &b.clock }

func (b *Bucket) DownForTest() *atomic.Bool { return &b.down }

func (b *Bucket) ProbingForTest() *atomic.Bool { return &b.probing }

func (c *TopicConf) AppendToForTest(args []any) []any { return c.appendTo(args) }

func (c *clockReading) ServerForTest() int64 { return c.server }

func (c *jobCount) JobsForTest() int64 { return c.jobs }

func (r record) DueForTest() *time.Time { return &r.due }

func (r record) PairsForTest() map[string]string { return r.pairs }

func (r record) PriorityForTest() Priority { return r.priority }

func (r record) RevisionForTest() int64 { return r.revision }

func (r record) StateForTest() string { return r.state }

func (b *takeBatch) ArgsForTest() []any { return b.args }

func (b *takeBatch) CallForTest() error { return b.call() }

func (b *takeBatch) GroupsForTest() []*takeGroup { return b.groups }

func (b *takeBatch) RecoverForTest() { b.recover() }

func (g *takeGroup) JobsForTest() []Job { return g.jobs }

type (
	JobCount  = jobCount
	Record    = record
	TakeBatch = takeBatch
)

const (
	AwaitFor       = awaitFor
	Durabilities   = durabilities
	LargeJobs      = largeJobs
	LongBody       = longBody
	MaxReplicaJobs = maxReplicaJobs
	TakePattern    = takePattern
	Waiting        = waiting
)

var (
	Connect     = connect
	ParseInfo   = parseInfo
	ParseRecord = parseRecord

	ChangeScript     = changeScript
	ConfigureScript  = configureScript
	DeadScript       = deadScript
	DeleteScript     = deleteScript
	PushEarlyScript  = pushEarlyScript
	PushScript       = pushScript
	ReserveScript    = reserveScript
	SettleByIDScript = settleByIDScript
	SettleScript     = settleScript
	TakeByIDScript   = takeByIDScript
	TakeScript       = takeScript
)
