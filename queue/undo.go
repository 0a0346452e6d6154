package queue

import (
	"context"
	"time"
)

// A push whose shard fell before it answered goes to another one, and may be in both. The shard it fell in removes its copy when it answers
// again: two would be called, and one of them could outlive a deletion. Should this process die before, they are called twice.

// maxUndo is how many copies a shard remembers to remove; more are called twice.
const maxUndo = 10_000

// undo removes a push from this shard as soon as that answers, if it is there.
func (s *Shard) undo(p *Push) {
	s.undoMu.Lock()
	defer s.undoMu.Unlock()
	if len(s.undone) >= maxUndo || s.ctx.Err() != nil {
		return
	}
	s.undone = append(s.undone, *p)
	if len(s.undone) == 1 {
		s.wg.Add(1)
		go s.undoAll()
	}
}

// undoAll goes on until there is nothing left to remove.
func (s *Shard) undoAll() {
	defer s.wg.Done()
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
func (s *Shard) removeOwn(pushes []Push) bool {
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
	defer cancel()
	which := make([]int, len(pushes))
	for i := range which {
		which[i] = i
	}
	found := map[int]*Job{}
	if err := s.getInto(ctx, pushes, which, found); err != nil {
		return false
	}
	for i, job := range found {
		if !isOwn(&pushes[i], job) {
			continue
		}
		if _, _, err := s.remove(ctx, job.Topic, job.ID); err != nil {
			return false
		}
		s.log.Info("a job that was pushed to another shard as well is removed here", "topic", job.Topic, "id", job.ID)
	}
	return true
}
