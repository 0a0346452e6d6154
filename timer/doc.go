// Package timer is the timer role: it calls the queue's advance step when a job is due or a lease expires.
//
// Each step returns the time of the next event. A timer counts down to it by the local monotonic clock, so that a
// wrong host clock does not matter, and a push of an earlier job wakes it. A wake-up that is lost costs the poll
// interval at most. The steps are atomic scripts: any number of timers work side by side, on any number of hosts.
package timer
