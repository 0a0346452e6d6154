package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
)

// checkEvery is how often a stream checks that its file still has its name.
const checkEvery = time.Second

// stream appends to the file of the day.
type stream struct {
	name    Stream
	dir     string
	now     func() time.Time
	durable bool // every write waits until it is on disk

	failure atomic.Pointer[error] // of the last write; nil after a success
	logged  atomic.Bool           // the failure was logged

	mu      sync.Mutex
	closed  bool
	file    *os.File    // nil: the next write opens it
	start   time.Time   // of the file's day
	checked time.Time   // when the file last had its name
	torn    bool        // the file does not end with a newline
	named   bool        // the file's name is on disk
	owed    bool        // a durable write to the open file is not yet on disk
	writes  int         // number of writes so far
	held    []byte      // lines that could not be written
	retry   *time.Timer // tries to write them; nil: such lines are dropped

	lost    int // no write up to this one is known to be on disk: their file could not be synced
	lostErr error

	syncing sync.Mutex
	synced  int // all writes up to this one are on disk; guarded by syncing
}

// write appends whole lines with one write(2) to the file of the current day. A durable write returns when its lines
// are on disk.
func (s *stream) write(lines []byte, durable bool) error {
	durable = durable || s.durable
	n, err := s.appendLocked(lines, durable)
	if err == nil && durable {
		err = s.commit(n)
	}
	if err == nil {
		s.failure.Store(nil)
		return nil
	}
	err = fmt.Errorf("writing the journal's %s file: %w", s.name, err)
	s.failure.Store(&err)
	return err
}

// appendLocked appends under the lock and returns the write's number.
func (s *stream) appendLocked(lines []byte, durable bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.appendHeld(lines, s.now())
	s.writes++
	s.owed = s.owed || durable && s.file != nil
	return s.writes, err
}

// append returns how many bytes of the lines were written.
func (s *stream) append(lines []byte, now time.Time) (int, error) {
	if s.closed {
		return 0, os.ErrClosed
	}
	if err := s.ready(now); err != nil {
		return 0, err
	}
	if s.torn {
		if _, err := disk.Write(s.file, []byte{'\n'}); err != nil {
			return 0, err
		}
		s.torn = false
	}
	n, err := disk.Write(s.file, lines)
	if n > 0 {
		s.torn = lines[n-1] != '\n'
	}
	return n, err
}

// maxHeld is the most bytes of lines that are held for later: more than 10,000 deliveries.
const maxHeld = 4 << 20

// appendHeld is append, preceded by the lines that earlier calls could not write. Lines that it cannot write are held
// and soon tried again.
func (s *stream) appendHeld(lines []byte, now time.Time) error {
	if len(s.held) > 0 {
		lines = slices.Concat(s.held, lines)
	}
	n, err := s.append(lines, now)
	if err == nil || s.retry == nil || s.closed {
		s.held = nil
		return err
	}
	if rest := lines[bytes.LastIndexByte(lines[:n], '\n')+1:]; len(rest) <= maxHeld {
		s.held = bytes.Clone(rest)
	}
	s.retry.Reset(probeEvery)
	return err
}

// ready opens the file of the day, and reopens it if it was removed or replaced.
func (s *stream) ready(now time.Time) error {
	if s.file != nil && s.isPast(now) {
		s.release()
	}
	if s.file != nil && now.Sub(s.checked).Abs() >= checkEvery {
		s.checked = now
		if !isAt(s.file, s.path()) {
			s.release()
		}
	}
	if s.file != nil {
		return nil
	}
	s.start = now.UTC().Truncate(day)
	return s.open(now)
}

// isPast reports whether the open file is for another day than now, also after the clock was set back.
func (s *stream) isPast(now time.Time) bool {
	age := now.Sub(s.start)
	return age < 0 || age >= day
}

func (s *stream) path() string { return filepath.Join(s.dir, fileName(s.name, s.start)) }

func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(open, named)
}

var errBusy = errors.New("the file is being compressed (was the clock set back?); the next write tries again")

// open opens the file and takes a shared lock. Housekeeping needs an exclusive one to compress the file.
func (s *stream) open(now time.Time) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path(), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = disk.Flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	// Housekeeping may have removed the file between open and lock; lines written to it would be lost.
	if errors.Is(err, syscall.EWOULDBLOCK) || err == nil && !isAt(f, s.path()) {
		f.Close()
		return errBusy
	}
	// On file systems without locks lines could be lost only when the clock is set back.
	s.file, s.checked, s.torn, s.named, s.owed = f, now, endsTorn(f), false, false
	return nil
}

func endsTorn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err != nil || last[0] != '\n'
}

// release closes the file. It first syncs durable writes that are not on disk yet, which would be impossible
// afterwards.
func (s *stream) release() {
	if s.owed {
		if err := s.toDisk(s.file, s.named); err != nil {
			s.lost, s.lostErr = s.writes, err
		}
	}
	// No data is buffered, and every write has returned its own error.
	s.file.Close()
	s.file = nil
}

// releasePast closes a file of another day, so that housekeeping can compress it.
func (s *stream) releasePast(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil && s.isPast(now) {
		s.release()
	}
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) > 0 {
		_ = s.appendHeld(nil, s.now()) // last try
		s.retry.Stop()
	}
	s.closed = true
	if s.file != nil {
		s.release()
	}
}

func (s *stream) err() error {
	if p := s.failure.Load(); p != nil {
		return *p
	}
	return nil
}
