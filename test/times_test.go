package test

import (
	"maps"
	"sync"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// times are when something happened first to each job.
type times struct {
	mu    sync.Mutex
	first map[harness.Key]time.Time
}

func newTimes() *times { return &times{first: map[harness.Key]time.Time{}} }

// note notes that it happens now.
func (s *times) note(key harness.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.first[key]; !ok {
		s.first[key] = time.Now()
	}
}

func (s *times) all() map[harness.Key]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.first)
}
