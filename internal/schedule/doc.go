// Package schedule decides which occurrences of a recurring job are pushed, and which are left out and why. It does no
// I/O and reads no clock.
//
//	decide.go  the occurrences that have come since the last decision
//	calendar   when occurrences are
package schedule
