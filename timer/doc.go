// Package timer is the timer role: it calls Shard.Advance of package queue when a job is due or a lease expires.
//
// Each step returns the time of the next event. A timer counts down to it by the local monotonic clock, so that a wrong
// host clock does not matter, and a push of an earlier job wakes it. A lost wake-up delays a job by the poll interval
// at most. The steps are atomic scripts: any number of timers work side by side, on any number of hosts.
package timer
