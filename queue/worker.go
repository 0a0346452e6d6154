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
