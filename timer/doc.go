// Package timer calls the queue's advance step at the moment something falls due.
//
// A timer knows from the last step when the next event is, counts down to it on the local monotonic clock (so a wrong
// host clock does not matter), and is woken when something earlier is pushed. A wake-up that got lost costs at most the
// fallback poll. The steps are atomic scripts: any number of timers on any number of hosts work side by side, and none
// moves what another has moved.
package timer
