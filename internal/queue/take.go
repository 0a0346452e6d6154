package queue

import (
	"slices"

	"github.com/wakecall/wakecall/internal/store"
)

// Spots returns the buckets of all shards that may have jobs of topics, beginning with another shard each time. A
// bucket with many of the topics is listed several times.
func (q *Queue) Spots(topics []string, order store.Order) []store.Spot {
	shards := *q.shards.Load()
	if len(shards) == 0 {
		return nil
	}
	first := int(q.turn.Add(1) % uint64(len(shards)))
	var spots []store.Spot
	for i := range shards {
		for _, at := range shards[(first+i)%len(shards)].Spots(topics, order) {
			for some := range slices.Chunk(at.Topics, store.MaxTopics) {
				spots = append(spots, store.Spot{Shard: at.Shard, Bucket: at.Bucket, Topics: some})
			}
		}
	}
	return spots
}
