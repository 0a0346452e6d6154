package alert

import (
	"cmp"
	"context"
	"time"

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

// deadAttempts is how many of a topic's last attempts are searched for dead jobs.
const deadAttempts = 100

// Dead returns the topics that have addresses and unreported dead jobs.
func (w *Watch) Dead(ctx context.Context) []DeadTopic {
	if w.completeSince.IsZero() { // the counts are unknown
		if w.died == nil && w.src.Snapshot().Topics.Len() == 0 {
			w.claim(ctx, nil) // a new installation: no deaths were reported yet
		}
		return nil
	}
	counts := map[string]Deaths{}
	for name, t := range w.trends {
		if n := t.last.Died; w.died == nil || n != w.died[name] {
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

func (w *Watch) lastDead(ctx context.Context, topic string, n int64) []DeadJob {
	attempts, err := w.src.Activity.Attempts(ctx, topic, deadAttempts)
	if err != nil && !queue.IsPartial(err) {
		return nil
	}
	var jobs []DeadJob
	for _, a := range attempts {
		if int64(len(jobs)) < min(n, deadShown) && (a.Outcome == "dead" || a.Outcome == "expired") {
			jobs = append(jobs, DeadJob{ID: a.ID, Error: cmp.Or(a.Error, a.Reason)})
		}
	}
	return jobs
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
