package queue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"time"
)

// A push whose shard fell before it answered goes to another one, and may be in both. The shard it fell in removes its copy when it answers
// again: two would be called, and one of them could outlive a deletion. Should this process die before, they are called twice.

// maxUndo is how many copies a shard remembers to remove; more are called twice.
const maxUndo = 10_000

// undone is a push that another shard has taken, with a digest in place of its body: those are read into buffers that the next request gets, and
// ten thousand of them would be too much to keep.
type undone struct {
	push  Push
	body  [sha256.Size]byte
	noted *noted // where to look up the id
}

// undo removes a push from this shard as soon as that answers, if it is there: under its own id, or under the one that is noted.
func (s *Shard) undo(p *Push, n *noted) {
	s.undoMu.Lock()
	defer s.undoMu.Unlock()
	if len(s.undone) >= maxUndo || s.ctx.Err() != nil {
		return
	}
	u := undone{push: *p, body: sha256.Sum256(p.Body), noted: n}
	u.push.Body = nil
	s.undone = append(s.undone, u)
	if len(s.undone) == 1 {
		s.start(s.undoAll)
	}
}

// undoAll goes on until there is nothing left to remove.
func (s *Shard) undoAll() {
	t := time.NewTicker(probeEvery)
	defer t.Stop()
	for {
		s.undoMu.Lock()
		some := s.undone[:min(len(s.undone), getStep)]
		s.undoMu.Unlock()
		if s.Up() && s.removeOwn(some) {
			s.undoMu.Lock()
			s.undone = s.undone[len(some):]
			left := len(s.undone)
			if left == 0 {
				s.undone = nil
			}
			s.undoMu.Unlock()
			if left == 0 {
				return
			}
			continue
		}
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		}
	}
}

// removeOwn removes the jobs that these pushes stored, and says whether the shard could be asked about all of them.
func (s *Shard) removeOwn(some []undone) bool {
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
	defer cancel()
	pushes, which := make([]Push, len(some)), make([]int, 0, len(some))
	for i := range some {
		pushes[i] = some[i].push
		if some[i].noted != nil {
			id, err := s.idOf(ctx, &pushes[i], some[i].noted)
			if err != nil {
				return false
			}
			pushes[i].ID = cmp.Or(id, pushes[i].ID) // near ones are stored under their own
		}
		which = append(which, i)
	}
	found := map[int]*Job{}
	if err := s.getInto(ctx, pushes, which, found); err != nil {
		return false
	}
	for i, job := range found {
		pushes[i].Body = job.Body
		if sha256.Sum256(job.Body) != some[i].body || !isOwn(&pushes[i], job) {
			continue
		}
		if _, _, _, err := s.remove(ctx, job.Topic, job.ID, Memory); err != nil {
			return false
		}
		s.log.Info("a job that was pushed to another shard as well is removed here", "topic", job.Topic, "id", job.ID)
	}
	return true
}
