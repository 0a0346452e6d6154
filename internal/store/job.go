package store

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// description is the decoded answer of describe in lua/shared.
type description struct {
	id, record, body string
	at               any // the time that belongs to its state
	attempts         any
}

const describedFields = 5

func described(v any) (d description, err error) {
	list, ok := v.([]any)
	if !ok || len(list) != describedFields {
		return d, ErrReply
	}
	return description{Text(list[0]), Text(list[1]), Text(list[3]), list[2], list[4]}, nil
}

// Described decodes a job's description as it was at now.
func (b *Bucket) Described(topic string, v any, now time.Time) (*Job, error) {
	d, err := described(v)
	if err != nil {
		return nil, fmt.Errorf("describe a job of %s: %w", topic, err)
	}
	return b.jobOf(topic, &d, now)
}

func (b *Bucket) jobOf(topic string, d *description, now time.Time) (*Job, error) {
	r, err := parseRecord(d.record)
	if err != nil {
		return nil, fmt.Errorf("describe %s/%s: %w", topic, d.id, err)
	}
	j := &Job{Topic: topic, ID: d.id, Shard: b.shard.name, ETag: etagOf([]byte(d.record))}
	if err := r.into(j); err != nil {
		return nil, fmt.Errorf("describe %s/%s: %w", topic, d.id, err)
	}
	if r.pairs["long"] != "" {
		j.Body = []byte(d.body)
	}
	if r.pairs["await"] != "" && r.state == string(Finished) {
		j.Answer = DecodeAnswer(d.body)
	}
	if j.History, err = decodeAttempts(d.attempts); err != nil {
		return nil, fmt.Errorf("describe %s/%s: %w", topic, d.id, err)
	}
	return j, j.setState(&r, d.at, now)
}

// setState sets the state and the fields that belong to it.
func (j *Job) setState(r *record, at any, now time.Time) error {
	switch j.State = State(r.state); j.State {
	case waiting:
		j.State, j.NextAt = Delayed, j.DueAt
		if next := r.pairs["next"]; next != "" {
			j.NextAt = millisOf(next)
		}
		if !j.NextAt.After(now) {
			j.State, j.NextAt = Ready, time.Time{}
		}
	case Running:
		j.LeaseUntil = Millis(at)
	case Dead:
		j.DeadAt = Millis(at)
	case Finished:
		return j.finished(r, Millis(at))
	default:
		return fmt.Errorf("%s/%s: state %.20q: %w", j.Topic, j.ID, r.state, ErrRecord)
	}
	return nil
}

// waiting is the stored state of delayed and ready jobs.
const waiting State = "waiting"

// etagOf returns a hash of a job's record; matches in lua/shared computes the same.
func etagOf(record []byte) string {
	sum := sha1.Sum(record) //nolint:gosec // not a signature; the scripts have it as redis.sha1hex
	return hex.EncodeToString(sum[:8])
}

// CallHeaders returns the job's own headers, and those that say of which schedule it is an occurrence, and for when.
func (j *Job) CallHeaders() map[string]string {
	if j.Schedule == "" {
		return j.Headers
	}
	headers := make(map[string]string, len(j.Headers)+2)
	maps.Copy(headers, j.Headers)
	headers["Wakecall-Schedule"] = j.Schedule
	headers["Wakecall-Scheduled-For"] = j.For.UTC().Format("2006-01-02T15:04:05.000Z")
	return headers
}

// Ref names a job.
type Ref struct{ Topic, ID string }

// getStep is how many jobs one call of the script get reads.
const getStep = 100

// Read reads jobs, also finished ones: nil where there is none; with an error it returns those that it could decode.
// now is the shard's clock.
func (b *Bucket) Read(ctx context.Context, refs []Ref) (jobs []*Job, now time.Time, err error) {
	jobs = make([]*Job, len(refs))
	args := make([]any, 0, 2*len(refs))
	for _, r := range refs {
		args = append(args, r.Topic, r.ID)
	}
	reply, err := b.CallList(ctx, 1+len(refs), getScript, args...)
	if err != nil {
		return jobs, now, err
	}
	now = micros(reply[0])
	for i, description := range reply[1:] {
		if description == "" {
			continue
		}
		job, failed := b.Described(refs[i].Topic, description, now)
		if failed != nil {
			err = failed
			continue
		}
		jobs[i] = job
	}
	return jobs, now, err
}

// Read reads jobs of any buckets, also finished ones: nil where there is none; with an error it returns those that were
// read.
func (s *Shard) Read(ctx context.Context, refs []Ref) ([]*Job, error) {
	jobs := make([]*Job, len(refs))
	byBucket := map[*Bucket][]int{}
	for i, r := range refs {
		b := s.BucketOf(r.Topic)
		byBucket[b] = append(byBucket[b], i)
	}
	var errs []error
	for b, list := range byBucket {
		for which := range slices.Chunk(list, getStep) {
			some := make([]Ref, len(which))
			for k, i := range which {
				some[k] = refs[i]
			}
			found, _, err := b.Read(ctx, some)
			for k, i := range which {
				jobs[i] = found[k]
			}
			errs = append(errs, err)
		}
	}
	return jobs, errors.Join(errs...)
}

// Live returns what a Read returned without the finished jobs.
func Live(jobs []*Job, err error) ([]*Job, error) {
	for i, j := range jobs {
		if j != nil && j.State == Finished {
			jobs[i] = nil
		}
	}
	return jobs, err
}
