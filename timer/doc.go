// Package timer is the timer role: it calls Shard.Advance of package queue when a job is due or a lease expires.
//
// Each step returns the time of the next event. A timer counts down to it with the local monotonic clock, so that a
// wrong host clock does not matter. A push of an earlier job wakes it; a lost wake-up delays a job by at most the poll
// interval. The steps are atomic scripts, so any number of timers can run in parallel, on any number of hosts.
package timer
