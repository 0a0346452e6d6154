package queue

import (
	"errors"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A push whose answer was lost may have been stored, although it then went to the next shard. No journal knows that
// second copy. A change or deletion that finds the copy while the other shard is unavailable would leave the real job
// unchanged. So the process removes the copy when the shard answers again: a job of that id which was stored while the
// push was under way, and is still as it was pushed. A change made meanwhile was made to both, and a later push of the
// id was stored later. A copy that the process has not removed within doubtFor, or by its own end, stays.

// maxDoubts bounds the doubts of a shard; an outage leaves those of one or two calls of the script.
const maxDoubts = 10_000

// doubt is a push that may have left a copy in a shard.
type doubt struct {
	push     Push // without its body
	body     uint64
	from, to int64 // when it may have been stored, in ms by the shard's clock
	noted    time.Time
}

// doubtFor is how long a process remembers a doubt. A drain that finds another job of an id, younger than twice that,
// treats it as such a copy: if it removed the drained job because of the copy, both would be lost.
const doubtFor = 5 * time.Minute

// clockDrift is more than two clocks drift apart within clockFor.
const clockDrift = 5 * time.Millisecond

// doubtOf returns the doubt about a push that was sent at began and got no answer; ok is false if it left no copy.
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

// left reports whether a job is the copy that the push left, and the doubt is younger than doubtFor.
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

// addDoubt arranges that the copy which a push may have left is removed as soon as the shard answers.
func (s *Shard) addDoubt(d doubt) {
	s.doubtMu.Lock()
	defer s.doubtMu.Unlock()
	if len(s.doubtful) < maxDoubts {
		s.doubtful = append(s.doubtful, d)
	}
	if !s.clearing {
		s.clearing = s.start(func() { s.retry(s.clearDoubts) })
	}
}

// clearDoubts removes copies if the shard answers, and reports whether no doubt is left.
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

// removeCopy removes a job that another shard has, if it is still as it was read.
func (s *Shard) removeCopy(j *Job) error {
	removed, err := s.remove(s.ctx, j.Topic, j.ID, Match{j.ETag}, Memory)
	if err != nil || removed.job == nil {
		return err
	}
	return s.queue.record(s.ctx, MovedOut, *removed.job)
}
