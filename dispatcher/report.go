//wakecall:figures
package dispatcher

import (
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/store"
)

// report counts outcomes in the metrics and passes the attempts to the activity recorder.
func (s *settler) report(batch []*outcome) {
	d := s.reserver.d
	if len(batch) == 0 {
		return
	}
	for _, o := range batch {
		d.metrics.outcome(o)
	}
	if d.opts.Activity != nil {
		d.opts.Activity.Record(s.reserver.bucket, attempts(batch))
	}
}

// attempts converts a batch for the activity recorder.
func attempts(batch []*outcome) []activity.Attempt {
	list := make([]activity.Attempt, 0, len(batch))
	for _, o := range batch {
		if o.Verb == store.Release {
			continue
		}
		j := o.job
		a := activity.Attempt{
			Topic: j.Topic, ID: j.ID, N: o.Lease.Attempt, Shard: j.Shard, LateMS: 1000 * o.late,
			Outcome: string(journalOutcomes[o.Verb]), Reason: o.reason,
			Answer: o.answer, Priority: j.Priority, First: j.Attempts == 0 && j.Snoozes == 0,
		}
		if made := o.Attempt; made != nil {
			a.Called, a.StartedAt, a.TookMS = true, made.StartedAt, made.TookMS
			a.Status, a.Error = made.Status, made.Error
		}
		list = append(list, a)
	}
	return list
}
