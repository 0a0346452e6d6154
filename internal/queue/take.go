package queue

import (
	"math/rand/v2"
	"slices"

	"github.com/wakecall/wakecall/internal/store"
)

// BucketTopics is a bucket and the topics of which to take jobs there.
type BucketTopics struct {
	*store.Bucket
	Topics []string
}

// same reports whether two of them are the same part of a list of Divide.
func (a BucketTopics) same(b BucketTopics) bool {
	return a.Bucket == b.Bucket && a.Topics[0] == b.Topics[0]
}

// Divide divides topics by the buckets of all shards that may have jobs of them, beginning with another shard each
// time. A bucket with many of the topics is listed several times.
func (s *Shards) Divide(topics []string, order store.Order) []BucketTopics {
	shards := *s.all.Load()
	if len(shards) == 0 {
		return nil
	}
	first := int(s.turn.Add(1) % uint64(len(shards)))
	var list []BucketTopics
	for i := range shards {
		for _, at := range divide(shards[(first+i)%len(shards)], topics, order) {
			for some := range slices.Chunk(at.Topics, store.MaxTopics) {
				list = append(list, BucketTopics{at.Bucket, some})
			}
		}
	}
	return list
}

// divide divides topics by the buckets of a shard: with Listed in the order of the topics, so that a bucket may be
// listed several times, otherwise each once, in any order.
func divide(s *store.Shard, topics []string, order store.Order) []BucketTopics {
	if len(s.Buckets()) == 1 {
		return []BucketTopics{{s.Buckets()[0], topics}}
	}
	var list []BucketTopics
	at := map[*store.Bucket]int{} // index of a bucket in the list
	for _, t := range topics {
		b := s.BucketOf(t)
		i, there := at[b]
		if !there || (order == store.Listed && i != len(list)-1) {
			i = len(list)
			at[b] = i
			list = append(list, BucketTopics{Bucket: b})
		}
		list[i].Topics = append(list[i].Topics, t)
	}
	if order != store.Listed {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list
}
