package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A shard remembers finished jobs, so that people can ask when a job was delivered and what the endpoint answered. A
// finished job keeps its record, with the state done and its last attempt, and fin:TOPIC orders a topic's finished jobs
// by time. The script that ends a job's lease stores that in the same step, and forgets older ones to make room: a
// topic with RememberLast has LastFinished of them, and a bucket MaxLast of all such topics, from which those of the
// topic that has been quiet longest go first. The finished jobs of a topic that remembers for a duration count as
// duplicates.
//
// When Redis is nearly full, no jobs are added and old ones are forgotten.

// RememberLast makes a shard remember a topic's last LastFinished jobs, and at most MaxLast of all such topics.
const (
	LastFinished = 1000
	MaxLast      = 100_000

	RememberLast = time.Duration(-1)
)

// finished sets the fields of a finished job.
func (j *Job) finished(r *record, at time.Time) error {
	var last Attempt
	if err := json.Unmarshal([]byte(r.pairs["last"]), &last); err != nil {
		return fmt.Errorf("the last attempt of %s/%s: %w", j.Topic, j.ID, ErrRecord)
	}
	j.FinishedAt, j.DeadReason = at, ""
	if last.StartedAt > 0 { // exact; at is when it was settled
		j.FinishedAt = time.UnixMilli(last.StartedAt).Add(time.Duration(last.TookMS * float64(time.Millisecond))).UTC()
	}
	j.History = lastAttempts(append(j.History, last))
	return nil
}

// Late returns how long after its due time the last attempt of a finished job started.
func (j *Job) Late() time.Duration {
	if len(j.History) == 0 {
		return 0
	}
	return time.UnixMilli(j.History[len(j.History)-1].StartedAt).Sub(j.DueAt)
}

// ErrBodyGone is the error of a finished job that cannot be pushed again, since its body is not remembered.
var ErrBodyGone = errors.New("the body was too long to be remembered")

// ErrAlive is the error of a job that cannot be pushed again, since it has not ended.
var ErrAlive = errors.New("the job has not ended")
