// Package drain moves the jobs of draining shards to active ones.
//
// Package queue (shards_move.go) explains how a job moves without being lost or called twice.
package drain
