package store

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
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

// job decodes a job's description as it was at now.
func (s *Shard) job(topic string, v any, now time.Time) (*Job, error) {
	d, err := described(v)
	if err != nil {
		return nil, fmt.Errorf("describe a job of %s: %w", topic, err)
	}
	return s.jobOf(topic, &d, now)
}

func (s *Shard) jobOf(topic string, d *description, now time.Time) (*Job, error) {
	r, err := parseRecord(d.record)
	if err != nil {
		return nil, fmt.Errorf("describe %s/%s: %w", topic, d.id, err)
	}
	j := &Job{Topic: topic, ID: d.id, Shard: s.name, ETag: etagOf(d.record)}
	if err := r.into(j); err != nil {
		return nil, fmt.Errorf("describe %s/%s: %w", topic, d.id, err)
	}
	if r.pairs["long"] != "" {
		j.Body = []byte(d.body)
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
		return fmt.Errorf("%s/%s: state %.20q: %w", j.Topic, j.ID, r.state, errRecord)
	}
	return nil
}

// waiting is the stored state of delayed and ready jobs.
const waiting State = "waiting"

// etagOf returns a hash of a job's record; matches in lua/shared computes the same.
func etagOf(record string) string {
	sum := sha1.Sum([]byte(record)) //nolint:gosec // not a signature; the scripts have it as redis.sha1hex
	return hex.EncodeToString(sum[:8])
}

// Ref names a job.
type Ref struct{ Topic, ID string }

// getStep is how many jobs one call of the script get reads.
const getStep = 100

// ReadJobs reads and decodes jobs, also finished ones: nil where there is none; with an error it returns those that it
// could decode. now is the shard's clock.
func (s *Shard) ReadJobs(ctx context.Context, bucket int, refs []Ref) (jobs []*Job, now time.Time, err error) {
	jobs = make([]*Job, len(refs))
	args := make([]any, 0, 2*len(refs))
	for _, r := range refs {
		args = append(args, r.Topic, r.ID)
	}
	reply, err := s.CallList(ctx, bucket, 1+len(refs), getScript, args...)
	if err != nil {
		return jobs, now, err
	}
	now = micros(reply[0])
	for i, description := range reply[1:] {
		if description == "" {
			continue
		}
		job, failed := s.job(refs[i].Topic, description, now)
		if failed != nil {
			err = failed
			continue
		}
		jobs[i] = job
	}
	return jobs, now, err
}

// Get returns nil without an error when there is no such job.
func (s *Shard) Get(ctx context.Context, topic, id string) (*Job, error) {
	jobs, err := s.GetLive(ctx, []Ref{{topic, id}})
	return jobs[0], err
}

// GetLive is getAll without finished jobs.
func (s *Shard) GetLive(ctx context.Context, refs []Ref) ([]*Job, error) {
	jobs, err := s.GetAll(ctx, refs)
	for i, j := range jobs {
		if j != nil && j.State == Finished {
			jobs[i] = nil
		}
	}
	return jobs, err
}

// GetAll returns the jobs of refs, nil where there is none; with an error it returns those that were read.
func (s *Shard) GetAll(ctx context.Context, refs []Ref) ([]*Job, error) {
	jobs := make([]*Job, len(refs))
	byBucket := map[int][]int{}
	for i, r := range refs {
		b := s.BucketOf(r.Topic)
		byBucket[b] = append(byBucket[b], i)
	}
	var errs []error
	for b, list := range byBucket {
		for which := range slices.Chunk(list, getStep) {
			errs = append(errs, s.getChunk(ctx, b, refs, which, jobs))
		}
	}
	return jobs, errors.Join(errs...)
}

// getChunk reads in one call the jobs at these indexes, all of one bucket.
func (s *Shard) getChunk(ctx context.Context, bucket int, refs []Ref, which []int, jobs []*Job) error {
	some := make([]Ref, len(which))
	for k, i := range which {
		some[k] = refs[i]
	}
	found, _, err := s.ReadJobs(ctx, bucket, some)
	for k, i := range which {
		jobs[i] = found[k]
	}
	return err
}
