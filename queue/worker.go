package queue

import "time"

// Advance is what one call of Shard.Advance did.
type Advance struct {
	Now     time.Time // Redis's clock in the script
	Next    time.Time // when there is something to do again; zero when nothing is known
	Moved   int       // jobs that became ready
	Expired int       // leases that ran out and were returned (or buried)
	More    bool      // work was left because the step is bounded: call again at once
}

// Reserve asks for ready jobs.
type Reserve struct {
	Worker string // one dispatcher; it has one Reserve at a time under way for a bucket
	Token  string // unique to this call
	Again  bool   // the same call is made again, after an answer got lost: it returns the same jobs
	Max    int    // at most ReserveLimit
	// Pattern is the order in which priorities are served, one digit a job ("0102010201" is 5:3:2); the position is kept
	// in Redis, so it holds over all dispatchers.
	Pattern string
	// TopicMax bounds the jobs of any one topic in this call, Busy those of single topics (0: none now), so that one slow
	// topic cannot take every place of a dispatcher.
	TopicMax int
	Busy     map[string]int
	// LeaseCap bounds the first lease: it lasts min(TTR, LeaseCap) plus LeaseGrace, and Extend prolongs it.
	LeaseCap time.Duration
}

// ReserveLimit is the most jobs of one Reserve, so that no script blocks Redis for long.
const ReserveLimit = 128

// LeaseGrace is added to every lease, for the settling of a call that used all of its TTR.
const LeaseGrace = time.Second

// StartWindow is how long after Reserve (or Extend) was sent a callback may still be started without asking Extend first.
// Delete of a running job waits it out, so no callback starts after its answer.
const StartWindow = 250 * time.Millisecond

// Reserved is the answer to Reserve.
type Reserved struct {
	Now  time.Time // Redis's clock in the script
	Jobs []*Lease
	More bool // there may be others, behind places of jobs that are gone
}

// Lease is a reserved job. Job.Attempts is the number made before this one.
type Lease struct {
	Job
	Token string
	ref   int64
	kept  bool // it has attempts or a body key to remove
}

// Verdict is what becomes of a reserved job.
type Verdict uint8

// The verdicts.
const (
	Done    Verdict = iota // delivered: the job is gone
	Retry                  // a counted attempt failed: ready again after Delay
	Snooze                 // "ask again": ready again after Delay, no attempt counted
	Bury                   // a counted attempt failed for good: dead with Reason
	Release                // not called: back to the head of its queue, nothing counted (shutdown, paused meanwhile)
	Expire                 // not called: dead with Reason, nothing counted
)

// Endpoint is what an attempt told about the topic's endpoint. It drives the topic's window of calls in flight and its breaker.
type Endpoint uint8

// What an attempt told about the endpoint.
const (
	EndpointUnknown Endpoint = iota // not called
	EndpointUp                      // it answered
	EndpointDown                    // no connection, timeout, 5xx, 429
)

// Settlement ends a lease.
type Settlement struct {
	Lease    *Lease
	Verdict  Verdict
	Delay    time.Duration // of Retry and Snooze
	Reason   string        // of Bury and Expire
	Attempt  *Attempt      // nil for Release and Expire; N is set by Settle
	Endpoint Endpoint
}

// Wakeup says that a bucket of a shard may have work of a kind.
type Wakeup struct {
	Bucket int
	Kind   WakeupKind
	About  string // of WakeAsk
}

// WakeupKind is who is meant.
type WakeupKind uint8

// The kinds of wake-ups.
const (
	WakeTimer      WakeupKind = iota // an earlier due time was stored
	WakeDispatcher                   // a job became ready while a dispatcher waited
	WakeRegistry                     // the registry changed (Queue.Announce)
	WakeReconnect                    // messages may have been missed: look at everything
	WakeAsk                          // a host asks the others what has ended (Shard.Ask)
)
