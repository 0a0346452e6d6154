package store

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/batch"
)

// What tests set inside of a shard.

// ClockForTest is a reading of a server's clock.
func ClockForTest(server int64, at time.Time) *clockReading { return &clockReading{server, at} }

// CountForTest is a count of a shard's jobs.
func CountForTest(jobs int64, at time.Time, took time.Duration) *jobCount {
	return &jobCount{jobs: jobs, at: at, took: took}
}

// KeepForTest returns c, which makes a shard remember as many finished jobs of a topic, and of all.
func KeepForTest(c TopicConf, last, all int) TopicConf {
	c.last, c.all = last, all
	return c
}

// UseForTest makes a shard call scripts through another client.
func (s *Shard) UseForTest(c redis.UniversalClient) { s.client = c }

// RewriteForTest changes the texts of all scripts.
func (s *Shard) RewriteForTest(change func(string) string) {
	compose := s.compose
	s.compose = func(script *Script) string { return change(compose(script)) }
	s.hashes.Clear()
}

// TakeForTest is a call that takes jobs of a topic, for tests that lose or delay it.
func TakeForTest(s *Shard, topic, token string) *takeBatch {
	c := takeCall{requests: []TakeRequest{{Topics: []string{topic}, Max: 1}}}
	b := &takeBatch{bucket: s.Buckets()[0], name: "test/0", calls: []*batch.Request[takeCall, Taken]{{Value: c}}}
	b.encode(token)
	return b
}
