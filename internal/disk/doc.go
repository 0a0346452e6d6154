// Package disk helps processes share a directory. It provides locks, and files that appear whole or not at all, even
// after a power failure.
package disk
