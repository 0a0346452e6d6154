package store

import (
	"context"
	"sync/atomic"
	"time"
)

// What tests of this package use beside its interface.

func (x *Shard) ComposeForTest() func(*Script) string { return x.compose }

func (x *Shard) CountedForTest() *atomic.Pointer[jobCount] { return &x.counted }

func (x *Shard) CtxForTest() context.Context { return x.ctx }

func (x *Shard) ForgetTopicsForTest() { x.forgetTopics() }

func (x *Shard) JobsForTest(a0 context.Context, a1 *jobCount) error { return x.jobs(a0, a1) }

func (x *Shard) MarkDownForTest(a0 int, a1 error) { x.markDown(a0, a1) }

func (x *Shard) NodesForTest() []*bucketState { return x.nodes }

func (x *Shard) ReservedForTest(a0 any, a1 string) (Reserved, error) { return x.reserved(a0, a1) }

func (x *Shard) RestoreForTest(a0 context.Context, a1 int, a2 []*Moving) error {
	return x.restore(a0, a1, a2)
}

func (x *Shard) StoreAllForTest(a0 int, a1 Durability, a2 []Push, a3 time.Duration) (results []Result, unsafe error) {
	return x.storeAll(a0, a1, a2, a3)
}

func (x *Shard) UrlForTest() string { return x.url }

func (x *TopicConf) AppendToForTest(a0 []any) []any { return x.appendTo(a0) }

const AwaitFor = awaitFor

func (x *bucketState) ClockForTest() *atomic.Pointer[clockReading] { return &x.clock }

func (x *bucketState) DownForTest() *atomic.Bool { return &x.down }

func (x *bucketState) ProbingForTest() *atomic.Bool { return &x.probing }

var ChangeScript = changeScript

func (x *clockReading) ServerForTest() int64 { return x.server }

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

func (x *jobCount) JobsForTest() int64 { return x.jobs }

const LargeJobs = largeJobs

const LongBody = longBody

const MaxReplicaJobs = maxReplicaJobs

var ParseInfo = parseInfo

var ParseRecord = parseRecord

var PullChannel = pullChannel

var PushEarlyScript = pushEarlyScript

var PushScript = pushScript

type Record = record

func (x record) DueForTest() *time.Time { return &x.due }

func (x record) PairsForTest() map[string]string { return x.pairs }

func (x record) PriorityForTest() Priority { return x.priority }

func (x record) StateForTest() string { return x.state }

var ReserveScript = reserveScript

var RestoreScript = restoreScript

var SettleByIDScript = settleByIDScript

var SettleScript = settleScript

type TakeBatch = takeBatch

func (x *takeBatch) ArgsForTest() []any { return x.args }

func (x *takeBatch) CallForTest() error { return x.call() }

func (x *takeBatch) GroupsForTest() []*takeGroup { return x.groups }

func (x *takeBatch) RecoverForTest() { x.recover() }

var TakeByIDScript = takeByIDScript

func (x *takeGroup) JobsForTest() []Job { return x.jobs }

const TakePattern = takePattern

var TakeScript = takeScript

const Waiting = waiting
