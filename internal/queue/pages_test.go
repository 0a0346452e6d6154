package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// locators returns the number of locators.
func (f *fixture) locators() (n int64) {
	f.Helper()
	for _, key := range f.s.client.Keys(f.ctx, "*i:*").Val() {
		if f.s.client.Type(f.ctx, key).Val() == "hash" {
			n += f.s.client.HLen(f.ctx, key).Val()
		}
	}
	return n
}

// openPages makes every unopened page of a topic due to be opened, and equally distant jobs in d:TOPIC due.
func openPages(ctx context.Context, s *Shard, topic string) error {
	if err := bringNear(ctx, s, topic); err != nil {
		return err
	}
	pages := s.client.ZRangeWithScores(ctx, prefix(0)+"pg:"+topic, 0, -1).Val()
	for _, z := range pages {
		key := prefix(0) + "p:" + z.Member.(string)
		for i, rec := range s.client.LRange(ctx, key, 0, -1).Val() {
			if i > 0 && rec != "" {
				s.client.LSet(ctx, key, int64(i), string(appendUint48(nil, time.Now().UnixMilli()-1))+rec[6:])
			}
		}
		s.client.HDel(ctx, prefix(0)+"cur", topic+"/"+fmt.Sprintf("%.0f", z.Score))
		s.client.ZAdd(ctx, prefix(0)+"pg:"+topic, redis.Z{Score: 60000, Member: z.Member})
	}
	if s.client.Exists(ctx, prefix(0)+"d:"+topic, prefix(0)+"pg:"+topic).Val() > 0 {
		s.client.ZAdd(ctx, prefix(0)+"due", redis.Z{Score: 1, Member: topic})
	}
	for more := true; more; {
		a, err := s.Advance(ctx, 0)
		if err != nil {
			return err
		}
		more = a.More
	}
	return nil
}

func bringNear(ctx context.Context, s *Shard, topic string) error {
	now := time.Now()
	far := strconv.FormatInt(now.Add(30*time.Minute).UnixMilli(), 10)
	key := prefix(0) + "d:" + topic
	refs, err := s.client.ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: far, Max: "+inf"}).Result()
	if err != nil {
		return err
	}
	due := now.UnixMilli() - 1
	for _, z := range refs {
		ref, err := strconv.ParseInt(z.Member.(string), 10, 64)
		if err != nil {
			return err
		}
		page, index := prefix(0)+fmt.Sprint("p:", ref>>2>>indexBits), ref>>2&(1<<indexBits-1)
		rec := s.client.LIndex(ctx, page, index).Val()
		if rec[:6] != string(appendUint48(nil, int64(z.Score))) {
			continue // the job waits for a retry
		}
		s.client.LSet(ctx, page, index, string(appendUint48(nil, due))+rec[6:])
		s.client.ZAdd(ctx, key, redis.Z{Score: float64(due), Member: z.Member})
	}
	return nil
}
