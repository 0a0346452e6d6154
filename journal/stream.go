package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Stream is one of the three kinds of file.
type Stream string

// The streams of a journal.
const (
	Requests Stream = "request"
	Attempts Stream = "notify"
	Errors   Stream = "error"
)

const (
	dayForm = "20060102"
	day     = 24 * time.Hour
	suffix  = ".jsonl"
	gz      = ".gz"
)

func fileName(s Stream, t time.Time) string {
	return string(s) + "-" + t.UTC().Format(dayForm) + suffix
}

// lookAgain is how often a stream looks whether its file is still the one of that name.
const lookAgain = time.Second

// stream appends to the file of the day.
type stream struct {
	name    Stream
	dir     string
	now     func() time.Time
	durable bool // write returns when the lines are on the disk

	failure atomic.Pointer[error] // of the last write; nil after a success
	told    atomic.Bool           // that it fails, as logged last

	mu     sync.Mutex
	closed bool
	file   *os.File  // nil: opened by the next write
	start  time.Time // of the file's day
	looked time.Time
	torn   bool // the file does not end with a newline
	writes int  // so far

	lost    int // the write up to which some may not have got to the disk when their file was let go of, because of
	lostErr error

	syncing sync.Mutex
	synced  int // the write up to which all are on the disk; syncing's
}

// write appends whole lines by one write(2), to the file of the day at that moment.
func (s *stream) write(lines []byte) error {
	n, err := s.locked(lines)
	if err == nil && s.durable {
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

// flush returns when all that was written before is on the disk.
func (s *stream) flush() error {
	s.mu.Lock()
	n := s.writes
	s.mu.Unlock()
	if err := s.commit(n); err != nil {
		return fmt.Errorf("writing the journal's %s file to the disk: %w", s.name, err)
	}
	return nil
}

// locked returns the number of the write.
func (s *stream) locked(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.append(lines, s.now())
	s.writes++
	return s.writes, err
}

// commit returns when a write is on the disk. Those that come while an fsync is under way wait for one that begins after it, together.
func (s *stream) commit(write int) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if s.synced >= write {
		return nil
	}
	s.mu.Lock()
	file, upTo, lost, err := s.file, s.writes, s.lost, s.lostErr
	s.mu.Unlock()
	if write <= lost {
		return err
	}
	// A file that was let go of is on the disk already, see release.
	if file != nil {
		if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
			return err
		}
	}
	s.synced = upTo
	return nil
}

func (s *stream) append(lines []byte, now time.Time) error {
	if s.closed {
		return os.ErrClosed
	}
	if err := s.ready(now); err != nil {
		return err
	}
	if s.torn {
		lines = append([]byte{'\n'}, lines...) // rare, so the copy does not matter
	}
	n, err := writeOnce(s.file, lines)
	if n > 0 {
		s.torn = lines[n-1] != '\n'
	}
	return err
}

// writeOnce is not os.File.Write, which writes the rest of a short write by a second call: behind what another process
// may have written meanwhile, with a line in two pieces as the result.
func writeOnce(f *os.File, b []byte) (int, error) {
	for {
		n, err := syscall.Write(int(f.Fd()), b)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return 0, err
		case n < len(b):
			return n, fmt.Errorf("%w: %d of %d bytes (is the disk full?)", io.ErrShortWrite, n, len(b))
		default:
			return n, nil
		}
	}
}

// ready has the file of the day open, and looks once a second whether it was removed or replaced under our feet.
func (s *stream) ready(now time.Time) error {
	if s.file != nil && s.isPast(now) {
		s.release()
	}
	if s.file != nil && now.Sub(s.looked).Abs() >= lookAgain {
		s.looked = now
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

// isPast says whether the open file is of another day than now. The clock may also have been set back.
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

var errBusy = errors.New("the file is being compressed (was the clock set back?); it is tried again with the next write")

// open takes a shared lock, which tells housekeeping that the file is in use. Housekeeping holds an exclusive one while
// it compresses a file of a past day.
func (s *stream) open(now time.Time) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path(), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = flock(f, syscall.LOCK_SH)
	// Between open and lock housekeeping may have removed the file: what is written to it would be gone.
	if errors.Is(err, syscall.EWOULDBLOCK) || err == nil && !isAt(f, s.path()) {
		f.Close()
		return errBusy
	}
	if s.durable { // the file's name has to be on the disk as well
		if err := syncDir(s.dir); err != nil {
			f.Close()
			return err
		}
	}
	// File systems without locks are fine: only a clock set back could then lose lines to the compression.
	s.file, s.looked, s.torn = f, now, endsTorn(f)
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

// flock never waits; the lock ends with the file's descriptor, also when the process is killed.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func (s *stream) release() {
	if s.durable {
		if err := s.file.Sync(); err != nil {
			s.lost, s.lostErr = s.writes, err
		}
	}
	// Nothing is buffered here, and every write has reported its own error.
	s.file.Close()
	s.file = nil
}

// releasePast lets go of a file of another day, so that housekeeping can have it.
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
