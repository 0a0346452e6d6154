// Package devclock moves the clock of `wakecall dev`, an installation for tests whose clock stands otherwise. Scripts
// take the time from a key (internal/store/standing.go). The Driver does what timers and dispatchers do elsewhere: it
// moves the clock from event to event and calls what has fallen due, one job after another, so that the same test
// always makes the same calls.
package devclock
