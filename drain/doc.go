// Package drain empties the shards that are draining: their jobs go to active shards.
//
// See package queue (shards_move.go) for how a job moves without being lost or called twice.
package drain
