package alert

import (
	"context"
	"maps"
	"time"

	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
)

// DeadTopic is a topic with jobs that died recently.
type DeadTopic struct {
	Topic      string    `json:"topic"`
	Recipients []string  `json:"-"` // the topic's addresses
	Count      int64     `json:"count"`
	Last       []DeadJob `json:"last"` // some of the dead jobs, latest first
}

// DeadJob is a dead job of a DeadTopic.
type DeadJob struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// deadShown is how many dead jobs of a topic a message lists.
const deadShown = 10

// addDeaths keeps how many jobs of topics died on each shard, as it counted when it last answered.
func (w *Watch) addDeaths(read map[string]observe.TopicTotals, err error) {
	missing := queue.Missing(err)
	for name, t := range read {
		died := map[string]int64{}
		for _, shard := range missing {
			died[shard] = w.diedOn[name][shard]
		}
		if maps.Copy(died, t.Died); len(died) > 0 || w.diedOn[name] != nil {
			w.diedOn[name] = died
		}
	}
}

// Dead returns the topics that have addresses and unreported dead jobs. It returns none before all shards have answered
// once.
func (w *Watch) Dead(ctx context.Context) []DeadTopic {
	if !w.counted {
		return nil
	}
	counts := map[string]Deaths{}
	for name, died := range w.diedOn {
		var n int64
		for _, some := range died {
			n += some
		}
		if w.died == nil || n != w.died[name] {
			counts[name] = Deaths{Count: n, Fell: n < w.died[name]}
		}
	}
	var list []DeadTopic
	for name, n := range w.claim(ctx, counts) {
		if t := w.src.Snapshot().Topics.Get(name); t != nil && len(t.Emails) > 0 {
			list = append(list, DeadTopic{Topic: name, Recipients: t.Emails, Count: n, Last: w.lastDead(ctx, name, n)})
		}
	}
	return list
}

// claim claims the unreported deaths.
func (w *Watch) claim(ctx context.Context, counts map[string]Deaths) map[string]int64 {
	if w.died != nil && len(counts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	unreported, err := w.src.ClaimDeaths(ctx, counts)
	if err != nil {
		return unreported
	}
	if w.died == nil {
		w.died = map[string]int64{}
	}
	for name, n := range counts {
		w.died[name] = n.Count
	}
	return unreported
}

func (w *Watch) lastDead(ctx context.Context, topic string, n int64) (list []DeadJob) {
	jobs, _ := w.src.Queue.LastDead(ctx, topic, int(min(n, deadShown))) // on error: those of the shards that answered
	for i := range jobs {
		list = append(list, DeadJob{jobs[i].ID, bulk.LastError(&jobs[i])})
	}
	return list
}

// collectDead collects the dead jobs for each of the topics' addresses.
func (a *Alerts) collectDead(ctx context.Context, s *Settings, now time.Time) {
	if a.opts.Dead == nil || now.Sub(a.lastDead) < min(s.GroupWait.Std(), criticalWait) {
		return
	}
	a.lastDead = now
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	for _, d := range a.opts.Dead(ctx) {
		if !s.DeadDigest {
			continue
		}
		for _, to := range d.Recipients {
			a.notified(receiver{channel: mailChannel, address: to}).add(d, now)
		}
	}
}
