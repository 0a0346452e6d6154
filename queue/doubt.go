package queue

import (
	"errors"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A push whose answer was lost may have been stored, though the next shard has its job by now. No journal knows that
// second copy. A change or a deletion that finds it, while the other shard is away, would leave the job that counts as
// it was. So the process removes it when the shard answers again: a job of that id which was stored while the push was
// under way, and is as it was pushed. Whoever changed it meanwhile has changed both, and whoever pushed the id again
// did so later. What a process has not removed within doubtFor, or when it ends, stays.

// maxDoubts are kept of a shard; of an outage it is one call of the script or two.
const maxDoubts = 10_000

// doubt is a push that may have left a copy in a shard.
type doubt struct {
	push     Push // without its body
	body     uint64
	from, to int64 // when it may have been stored, in ms by the shard's clock
	noted    time.Time
}

// doubtFor is how long a process knows of a doubt. A drain that finds a job which is younger than twice that takes it
// for the copy of one: were the job that is drained removed for its sake, both would be gone.
const doubtFor = 5 * time.Minute

// clockDrift is more than two clocks drift apart within clockFor.
const clockDrift = 5 * time.Millisecond

// doubtOf is a push that got no answer since began.
func (s *Shard) doubtOf(p Push, began time.Time) (d doubt, ok bool) {
	clock := s.nodes[s.bucketOf(p.Topic)].clock.Load()
	if clock == nil {
		return d, false // it was refused, see deadline.go
	}
	d = doubt{push: p, body: xxhash.Sum64(p.Body), noted: time.Now()}
	d.from, d.to = clock.earliest(began.Add(-clockDrift)), clock.latest(time.Now().Add(clockDrift))
	d.push.Body = nil
	return d, true
}

// left reports whether a job is the copy that the push left, if that is still to be removed.
func (d *doubt) left(j *Job) bool {
	if time.Since(d.noted) > doubtFor {
		return false
	}
	if created := j.CreatedAt.UnixMilli(); created < d.from || created > d.to || xxhash.Sum64(j.Body) != d.body {
		return false
	}
	p := d.push
	p.Body = j.Body
	return isOwn(&p, j)
}

// doubts has the copy removed that a push may have left, as soon as the shard answers.
func (s *Shard) doubts(d doubt) {
	s.doubtMu.Lock()
	defer s.doubtMu.Unlock()
	if len(s.doubtful) < maxDoubts {
		s.doubtful = append(s.doubtful, d)
	}
	if !s.clearing {
		s.clearing = s.start(func() { s.retry(s.clearDoubts) })
	}
}

// clearDoubts removes the copies of some pushes if the shard answers, and reports that no push is left.
func (s *Shard) clearDoubts() (done bool) {
	if !s.Up() {
		return false
	}
	s.doubtMu.Lock()
	list := s.doubtful[:min(len(s.doubtful), getStep)]
	s.clearing = len(list) > 0
	s.doubtMu.Unlock()
	if len(list) == 0 {
		return true
	}
	if err := s.removeCopies(list); err != nil {
		s.log.Warn("copies that pushes left cannot be removed yet", "error", err)
		return false
	}
	s.doubtMu.Lock()
	s.doubtful = slices.Delete(s.doubtful, 0, len(list))
	s.doubtMu.Unlock()
	return false
}

func (s *Shard) removeCopies(list []doubt) error {
	refs := make([]Ref, len(list))
	for i := range list {
		refs[i] = Ref{list[i].push.Topic, list[i].push.ID}
	}
	found, err := s.getAll(s.ctx, refs)
	for i, j := range found {
		if j != nil && list[i].left(j) {
			err = errors.Join(err, s.removeCopy(j))
		}
	}
	return err
}

// removeCopy removes a job that another shard has, as it was read.
func (s *Shard) removeCopy(j *Job) error {
	removed, err := s.remove(s.ctx, j.Topic, j.ID, Match{j.ETag}, Memory)
	if err != nil || removed.job == nil {
		return err
	}
	return s.queue.record(s.ctx, MovedOut, *removed.job)
}
