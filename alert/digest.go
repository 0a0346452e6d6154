package alert

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// DeadTopic is a topic with jobs that died lately.
type DeadTopic struct {
	Topic      string
	Recipients []string // the topic's addresses
	Count      int64
	Last       []DeadJob // some of them, the latest first
}

// DeadJob is one of them.
type DeadJob struct {
	ID    string
	Error string
}

const (
	digestEvery = time.Minute
	digestJobs  = 20
	// deadAttempts is how many of a topic's last attempts are searched for dead jobs.
	deadAttempts = 100
)

// Dead lists the topics with addresses whose jobs died and that no host has reported yet.
func (w *Watch) Dead(ctx context.Context) []DeadTopic {
	if w.completeSince.IsZero() { // the counts are not known
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

// claim claims the deaths that nobody reported yet.
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
		if int64(len(jobs)) < n && (a.Outcome == "dead" || a.Outcome == "expired") {
			jobs = append(jobs, DeadJob{ID: a.ID, Error: cmp.Or(a.Error, a.Reason)})
		}
	}
	return jobs
}

// digests mails dead jobs to their topics' addresses, at most one mail per topic and minute.
func (a *Alerts) digests(ctx context.Context, s Settings, now time.Time) {
	if a.opts.Dead == nil || a.storeHangs || now.Sub(a.lastDigest) < digestEvery {
		return
	}
	a.lastDigest = now
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	dead := a.opts.Dead(ctx)
	if !s.DeadDigest {
		return
	}
	for _, d := range dead {
		alert := Alert{
			Kind: "dead_jobs", Severity: Warning, Topic: d.Topic, Subject: digestSubject(d), Host: a.opts.Host, BeganAt: now,
		}
		m := &Message{Phase: Digest, Alert: alert, Link: link(a.opts.AdminURL, &alert), At: now}
		for _, j := range d.Last[:min(len(d.Last), digestJobs)] {
			m.Lines = append(m.Lines, j.ID+": "+j.Error)
		}
		a.queue(s, m, d.Recipients, false)
	}
}

func digestSubject(d DeadTopic) string {
	if d.Count == 1 {
		return "a job of " + d.Topic + " is dead"
	}
	return fmt.Sprint(d.Count) + " jobs of " + d.Topic + " are dead"
}
