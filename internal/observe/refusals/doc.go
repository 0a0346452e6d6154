// Package refusals counts the pushes that were answered 503 because no shard, or no journal, accepted them. Pushes that
// are malformed, or that the topic's state refuses, are not counted.
//
// Each process counts its own in memory, and writes them to the registry's database every two seconds while there are
// new ones, since the shards are away at such times. Its row is replaced as a whole, so a repeated write changes
// nothing. While the database is unavailable, the counts stay in memory.
//
//wakecall:figures
package refusals
