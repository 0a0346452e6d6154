// Package disk has what processes that share a directory need: locks, and files that appear whole or not at all, also
// after a power failure.
package disk
