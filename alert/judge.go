package alert

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

var shardSubjects = map[string]string{
	"down": "is down", "partial": "answers only in part", "slow": "is slow", "memory": "is nearly full",
	"eviction": "may evict jobs", "write_error": "cannot write its files", "link_down": "has a replica without its master",
	"clock": "has another time than this host", "stepped": "had its clock set", "restarted": "was restarted",
}

var criticalShardKinds = []string{"down", "partial", "eviction", "write_error"}

// shards judges the findings of the redis-checker.
func (w *Watch) shards(r Rules) []Finding {
	if !r.Shards {
		return nil
	}
	var list []Finding
	for _, f := range w.src.Shards() {
		severity := Warning
		if slices.Contains(criticalShardKinds, f.Kind) {
			severity = Critical
		}
		list = append(list, Finding{
			Kind: "shard_" + f.Kind, Severity: severity, Shard: f.Shard, Detail: f.Detail,
			Subject: "shard " + f.Shard + " " + cmp.Or(shardSubjects[f.Kind], f.Kind),
		})
	}
	return list
}

// host judges what this host needs beside Redis: the registry's database and the journal.
func (w *Watch) host(r Rules, now time.Time) []Finding {
	var list []Finding
	if w.src.RegistryUp() {
		w.registryAway = time.Time{}
	} else if w.registryAway.IsZero() {
		w.registryAway = now
	}
	if r.Registry && !w.registryAway.IsZero() && now.Sub(w.registryAway) >= registryWait {
		list = append(list, Finding{
			Kind: "registry", Severity: Critical, Subject: "the registry's database does not answer",
			Detail: "Pushes and callbacks go on with the last snapshot; nothing can be changed until it is back.",
		})
	}
	if !r.Journal {
		return list
	}
	if err := w.src.Journal(); err != nil {
		list = append(list, Finding{
			Kind: "journal", Severity: Critical, Subject: "the journal cannot be written",
			Detail: err.Error() + ". A push is refused if its line in the request file cannot be written.",
		})
	}
	return list
}

// unknownEvery is how often the topics of the shards are compared with those of the registry.
const unknownEvery = 15 * time.Second

// unknownTopics judges which topics have jobs that wait because the registry lost the topic.
func (w *Watch) unknownTopics(ctx context.Context, r Rules, now time.Time) ([]Finding, error) {
	if !r.Registry || w.src.Unknown == nil || now.Sub(w.unknownAsked) < unknownEvery {
		return w.unknown, nil
	}
	counts, err := w.src.Unknown(ctx)
	if err != nil {
		return w.unknown, err
	}
	w.unknown, w.unknownAsked = nil, now
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		w.unknown = append(w.unknown, Finding{
			Kind: "topic_unknown", Severity: Critical, Topic: name,
			Subject: "topic " + name + " has jobs and is not in the registry",
			Detail: fmt.Sprintf("%d jobs wait. Nobody deleted the topic: this is another registry, or an old backup of it. "+
				"Restore the right one, or register the topic again. To get rid of the jobs, delete it then.", counts[name]),
		})
	}
	return w.unknown, nil
}

// judgeTopic judges one topic by its recent readings.
func judgeTopic(t *registry.Topic, recent *trend, r Rules, now time.Time) []Finding {
	var list []Finding
	add := func(kind, severity, subject, detail string) {
		list = append(list, Finding{
			Kind: kind, Severity: severity, Subject: "topic " + t.Name + " " + subject, Detail: detail, Topic: t.Name,
		})
	}
	idle := recent.idle(now)
	if limit := r.NoConsumer.Std(); t.State == registry.TopicActive && limit > 0 && idle >= limit {
		add("no_consumer", Critical, "is not consumed", fmt.Sprintf(
			"%d jobs are ready and nothing was called for %s: is a dispatcher running?",
			recent.last.Ready, idle.Round(time.Second)))
	}
	did := recent.since(failingSpan, now)
	attempts := did.failed + did.delivered
	enough := r.FailingShare > 0 && attempts >= max(1, r.FailingLeast)
	if enough && float64(did.failed) >= r.FailingShare*float64(attempts) {
		add("topic_failing", Warning, "fails",
			fmt.Sprintf("%d of %d attempts in the last five minutes failed.", did.failed, attempts))
	}
	if died := recent.since(trendSpan, now).died; r.DeadJobs > 0 && died >= r.DeadJobs {
		add("dead", Warning, "has dead jobs",
			fmt.Sprintf("%d jobs died in the last ten minutes; %d are dead altogether.", died, recent.last.Dead))
	}
	if r.Ledger && recent.unevenRounds >= unevenRounds {
		add("ledger", Critical, "has a ledger that does not add up",
			recent.last.Ledger()+". A shard may have lost data: see `wakecall recover`.")
	}
	return list
}

// breakers judges which topics' endpoints are not called any more.
func (w *Watch) breakers(ctx context.Context, r Rules, topics []string, now time.Time) (list []Finding, err error) {
	if !r.Breaker {
		return nil, nil
	}
	limits, err := w.src.Queue.TopicLimits(ctx, topics) // with an error: those of the shards that answer
	for name, l := range limits {
		if l.BreakerOpen.IsZero() || !l.BreakerOpen.After(now.Add(-time.Minute)) {
			continue
		}
		list = append(list, Finding{
			Kind: "breaker", Severity: Critical, Topic: name,
			Subject: "topic " + name + " has an endpoint that does not answer",
			Detail: fmt.Sprintf("%d calls failed in a row; one probe at a time is made until it answers. Its jobs keep their "+
				"attempts.", l.Failures),
		})
	}
	return list, err
}

// late judges which topics' calls are late: by the oldest job that waits or the calls of the last minute, whichever is
// worse. A topic that was found late stays so until it is well below its limit.
func (w *Watch) late(
	ctx context.Context, r Rules, topics []string, read map[string]queue.TopicTotals, now time.Time,
) (list []Finding, err error) {
	calls, err := w.src.Activity.Lateness(ctx, topics, now.Add(-lateSpan)) // with an error: of the shards that answer
	for _, name := range topics {
		t, limit := w.src.Snapshot().Topics.Get(name), r.Objective(name)
		if limit <= 0 || t == nil || t.State != registry.TopicActive {
			continue
		}
		f := Finding{Kind: "late", Severity: Warning, Subject: "topic " + name + " is called late", Topic: name}
		if found, ok := w.found[f.Key()]; ok && now.Sub(found) <= defaultSpan {
			limit = time.Duration(float64(limit) * calmShare)
		}
		n, p99 := read[name].Stats, calls[name].Quantile(0.99)
		if max(n.OldestReady, p99) <= limit {
			continue
		}
		f.Detail = fmt.Sprintf("The oldest of %d ready jobs has waited for %s; the 99th percentile of the last minute is %s "+
			"after the due time. The objective is %s.", n.Ready, n.OldestReady.Round(time.Millisecond),
			p99.Round(time.Millisecond), r.Objective(name))
		list = append(list, f)
	}
	return list, err
}
