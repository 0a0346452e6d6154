package queue

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// stateNames maps the scripts' letters to states; f is delayed in a page that is not open yet.
var stateNames = map[string]State{"d": Delayed, "f": Delayed, "r": Ready, "u": Running, "x": Dead}

// described decodes a job's description, made by describe in lua/shared.
func (s *Shard) described(topic string, v any) (*Job, error) {
	d, ok := v.([]any)
	if !ok || len(d) != 6 {
		return nil, fmt.Errorf("describe a job of %s: %w", topic, errReply)
	}
	ref, _ := d[0].(int64)
	letter, _ := d[1].(string)
	record, _ := d[3].(string)
	if letter == finishedLetter {
		return s.finished(topic, record)
	}
	body, _ := d[4].(string)
	attempts, _ := d[5].(string)
	j := &Job{Topic: topic, Shard: s.name, State: stateNames[letter]}
	if err := decodeRecord(j, record, body); err != nil {
		return nil, fmt.Errorf("describe a job of %s: %w", topic, err)
	}
	if err := decodeAttempts(j, attempts); err != nil {
		return nil, fmt.Errorf("describe %s/%s: %w", topic, j.ID, err)
	}
	j.ETag = etagOf(ref, j.State, d[2], record, attempts)
	switch j.State {
	case Delayed:
		j.NextAt = millis(d[2])
	case Running:
		j.LeaseUntil = millis(d[2])
	case Dead:
		j.DeadAt = millis(d[2])
	}
	return j, nil
}

// etagOf returns a hash of a job's record, state and attempts. matches in lua/shared computes the same.
func etagOf(ref int64, state State, at any, record, attempts string) string {
	letter, time := "r", int64(0)
	switch state {
	case Delayed:
		letter = "d"
		time, _ = at.(int64)
	case Running:
		letter = "u"
	case Dead:
		letter = "x"
	case Finished:
		letter = finishedLetter
	}
	// Over what Redis stores; it protects no secret.
	sum := sha1.Sum(fmt.Appendf(nil, "%d %s %d %s%s", ref, letter, time, attempts, record))
	return hex.EncodeToString(sum[:8])
}

// Ref names a job.
type Ref struct{ Topic, ID string }

// getStep is how many jobs one call of the scripts get and recall reads.
const getStep = 100

// read calls the script get or recall for jobs of one bucket. It returns the shard's clock, and for each job its
// description or "".
func (s *Shard) read(ctx context.Context, bucket int, script string, refs []Ref) ([]any, error) {
	args := make([]any, 0, 3*len(refs))
	for _, r := range refs {
		args = append(args, r.Topic, s.address(r.Topic, r.ID), r.ID)
	}
	return s.list(ctx, bucket, 1+len(refs), script, args...)
}

// readJobs reads and decodes jobs: nil where there is none; with an error it returns those that it could decode.
func (s *Shard) readJobs(ctx context.Context, bucket int, script string, refs []Ref) ([]*Job, error) {
	jobs := make([]*Job, len(refs))
	reply, err := s.read(ctx, bucket, script, refs)
	if err != nil {
		return jobs, err
	}
	for i, description := range reply[1:] {
		if description == "" {
			continue
		}
		job, failed := s.described(refs[i].Topic, description)
		if failed != nil {
			err = failed
			continue
		}
		jobs[i] = job
	}
	return jobs, err
}

// get returns nil without an error when there is no such job.
func (s *Shard) get(ctx context.Context, topic, id string) (*Job, error) {
	jobs, err := s.getAll(ctx, []Ref{{topic, id}})
	return jobs[0], err
}

// getAll returns the jobs of refs, nil where there is none; with an error it returns those that were read.
func (s *Shard) getAll(ctx context.Context, refs []Ref) ([]*Job, error) {
	jobs := make([]*Job, len(refs))
	byBucket := map[int][]int{}
	for i, r := range refs {
		b := s.bucketOf(r.Topic)
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
	found, err := s.readJobs(ctx, bucket, "get", some)
	for k, i := range which {
		jobs[i] = found[k]
	}
	return err
}

// Lookup returns the jobs of refs, thousands at once if need be, nil where no shard that is up has one. The named
// shard, if any, must be up.
func (q *Queue) Lookup(ctx context.Context, refs []Ref, shard string) ([]*Job, error) {
	jobs := make([]*Job, len(refs))
	for _, s := range q.drainingFirst() {
		if !s.Up() {
			if s.name == shard {
				return nil, fmt.Errorf("look up %d jobs: shard %s does not answer", len(refs), s.name)
			}
			continue
		}
		var todo []int
		var asked []Ref
		for i, j := range jobs {
			if j == nil {
				todo, asked = append(todo, i), append(asked, refs[i])
			}
		}
		found, err := s.getAll(ctx, asked)
		if err != nil {
			return nil, fmt.Errorf("look up %d jobs in shard %s: %w", len(asked), s.name, err)
		}
		for k, i := range todo {
			jobs[i] = found[k]
		}
	}
	return jobs, nil
}

// Get returns a job with its attempts. Errors: ErrNotFound, *UnavailableError.
func (q *Queue) Get(ctx context.Context, topic, id string) (job *Job, err error) {
	err = q.search(topic, id, func(s *Shard) (bool, error) {
		var err error
		job, err = s.get(ctx, topic, id)
		return job != nil, err
	})
	return job, err
}
