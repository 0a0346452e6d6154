// Package health judges shards: what a Redis says of itself, how it answers pings, and what its clock shows.
//
// It is the only judge. The redis-checker judges every shard again and again and makes findings and alerts of it,
// `wakecall check` and the admin's shard test judge a shard once, and the admin's overview shows what the judge says.
// All limits are in limits.go.
package health
