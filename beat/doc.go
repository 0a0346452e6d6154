// Package beat makes the looks that a process takes every second or so fall on the same instants, so that a process that has nothing to do wakes once
// for all of them.
package beat
