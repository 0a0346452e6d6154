package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// stateNames are the letters that the scripts give states; f is delayed in a page that is not open yet.
var stateNames = map[string]State{"d": Delayed, "f": Delayed, "r": Ready, "u": Running, "x": Dead}

// described reads what describe() in common.lua tells of a job. A record that cannot be decoded is shown as far as it goes.
func (s *Shard) described(topic string, v any) (*Job, error) {
	d, ok := v.([]any)
	if !ok || len(d) != 6 {
		return nil, fmt.Errorf("describe a job of %s: %w", topic, errReply)
	}
	ref, _ := d[0].(int64)
	letter, _ := d[1].(string)
	record, _ := d[3].(string)
	body, _ := d[4].(string)
	attempts, _ := d[5].(string)
	j := &Job{Topic: topic, Shard: s.name, State: stateNames[letter]}
	if err := decodeRecord(j, ref, record, body); err != nil {
		return nil, fmt.Errorf("describe a job of %s: %w", topic, err)
	}
	if err := decodeAttempts(j, attempts); err != nil && !j.Newer {
		return nil, fmt.Errorf("describe %s/%s: %w", topic, j.ID, err)
	}
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

// get returns nil without an error when the job is not there.
func (s *Shard) get(ctx context.Context, topic, id string) (*Job, error) {
	reply, err := s.read(ctx, s.bucketOf(topic), []any{topic, s.address(topic, id), id})
	if err != nil {
		return nil, err
	}
	if reply[1] == "" {
		return nil, nil
	}
	return s.described(topic, reply[1])
}

// getStep is how many jobs one call of the get script reads.
const getStep = 100

// getMany looks for the pushes of these indexes and returns the jobs that live, by index. What cannot be asked counts as not there.
func (s *Shard) getMany(ctx context.Context, pushes []Push, which []int) map[int]*Job {
	found := map[int]*Job{}
	_ = s.getInto(ctx, pushes, which, found)
	return found
}

// getInto fills in what was found before an error too.
func (s *Shard) getInto(ctx context.Context, pushes []Push, which []int, found map[int]*Job) error {
	byBucket := map[int][]int{}
	for _, i := range which {
		b := s.bucketOf(pushes[i].Topic)
		byBucket[b] = append(byBucket[b], i)
	}
	var errs []error
	for b, list := range byBucket {
		for chunk := range slices.Chunk(list, getStep) {
			errs = append(errs, s.getChunk(ctx, b, pushes, chunk, found))
		}
	}
	return errors.Join(errs...)
}

// read calls the get script, which takes three arguments a job, and returns the shard's clock and a description of each, "" for none.
func (s *Shard) read(ctx context.Context, bucket int, args []any) ([]any, error) {
	return s.list(ctx, bucket, 1+len(args)/3, "get", args...)
}

func (s *Shard) getChunk(ctx context.Context, bucket int, pushes []Push, which []int, found map[int]*Job) error {
	args := make([]any, 0, 3*len(which))
	for _, i := range which {
		args = append(args, pushes[i].Topic, s.address(pushes[i].Topic, pushes[i].ID), pushes[i].ID)
	}
	reply, err := s.read(ctx, bucket, args)
	if err != nil {
		return err
	}
	for k, i := range which {
		if reply[k+1] == "" {
			continue
		}
		job, failed := s.described(pushes[i].Topic, reply[k+1])
		if failed != nil {
			err = failed
			continue
		}
		found[i] = job
	}
	return err
}

// Ref names a job.
type Ref struct{ Topic, ID string }

// Lookup returns the jobs of these names, nil where none lives in a shard that is up. The shard named, if any, must be. It may be asked for
// thousands at once.
func (q *Queue) Lookup(ctx context.Context, refs []Ref, shard string) ([]*Job, error) {
	asked := make([]Push, len(refs))
	todo := make([]int, len(refs))
	for i, r := range refs {
		asked[i], todo[i] = Push{Topic: r.Topic, ID: r.ID}, i
	}
	jobs := make([]*Job, len(refs))
	for _, s := range q.following() {
		if !s.Up() {
			if s.name == shard {
				return nil, fmt.Errorf("look up %d jobs: shard %s does not answer", len(refs), s.name)
			}
			continue
		}
		found := map[int]*Job{}
		if err := s.getInto(ctx, asked, todo, found); err != nil {
			return nil, fmt.Errorf("look up %d jobs in shard %s: %w", len(todo), s.name, err)
		}
		for i, job := range found {
			jobs[i] = job
		}
		todo = slices.DeleteFunc(todo, func(i int) bool { return jobs[i] != nil })
	}
	return jobs, nil
}

// Get returns a job with its attempts. Errors: ErrNotFound, ErrNewer, *UnavailableError.
func (q *Queue) Get(ctx context.Context, topic, id string) (job *Job, err error) {
	err = q.first(topic, id, func(s *Shard) (bool, error) {
		var err error
		job, err = s.get(ctx, topic, id)
		return job != nil, err
	})
	if err == nil && job.Newer {
		return nil, fmt.Errorf("%s/%s: %w", topic, id, ErrNewer)
	}
	return job, err
}
