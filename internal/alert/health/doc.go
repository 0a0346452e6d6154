// Package health judges shards: by Redis's reports about itself, its answers to pings, and its clock.
//
// No other package judges shards. The redis-checker judges every shard continuously and turns problems into findings
// and alerts, `wakecall check` and the admin's shard test judge a shard once, and the admin's overview shows the
// result. All limits are in limits.go.
package health
