package journal

import (
	"errors"
	"os"

	"github.com/wakecall/wakecall/internal/disk"
)

// commit returns when a write is on disk. Writes that arrive during an fsync share the next one.
func (s *stream) commit(write int) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	file, named, upTo, lost, lostErr := s.file, s.named, s.writes, s.lost, s.lostErr
	s.mu.Unlock()
	switch {
	case write <= lost: // even if a later write is on disk
		return lostErr
	case write <= s.synced:
		return nil
	}
	err := s.toDisk(file, named)
	s.mu.Lock()
	defer s.mu.Unlock()
	if write <= s.lost {
		return s.lostErr
	}
	// A file that was closed meanwhile is on disk already, see release. After a failed sync a second one succeeds
	// although the data is not on disk: Linux reports an error once, and drops the pages.
	if err != nil && !errors.Is(err, os.ErrClosed) {
		s.lost, s.lostErr = upTo, err
		return err
	}
	s.named = s.named || s.file == file
	s.synced = upTo
	return nil
}

// toDisk syncs the open file, and its directory unless the file's name is on disk already.
func (s *stream) toDisk(file *os.File, named bool) error {
	if file == nil {
		return nil
	}
	if err := disk.Sync(file); err != nil || named {
		return err
	}
	return disk.SyncDir(s.dir)
}
