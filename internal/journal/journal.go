package journal

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
)

// Options of a Journal.
type Options struct {
	Dir     string
	Keep    time.Duration // how long files are kept after their day; 0: forever
	Process string        // the default for lines that name none
	Sync    bool          // Requests returns only when its lines are on disk
	Logger  *slog.Logger  // nil: slog.Default
	Now     func() time.Time
}

// Journal writes the three streams. It is safe for concurrent use.
type Journal struct {
	opts      Options
	requests  *stream
	attempts  *stream
	errors    *stream
	lastProbe atomic.Int64         // Unix nanoseconds
	oldSince  map[string]time.Time // by file: when housekeeping found it older than Keep
}

// Open creates the directory, and refuses one of another format. Files are opened when the first line is written.
func Open(opts Options) (*Journal, error) {
	if opts.Dir == "" {
		return nil, errors.New("open the journal: no directory given")
	}
	if err := begin(opts.Dir); err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	j := &Journal{
		opts:     opts,
		requests: &stream{name: Requests, dir: opts.Dir, now: opts.Now, durable: opts.Sync},
		attempts: &stream{name: Attempts, dir: opts.Dir, now: opts.Now},
		errors:   &stream{name: Errors, dir: opts.Dir, now: opts.Now},
	}
	j.attempts.again = time.AfterFunc(probeEvery, func() { j.logHealth(j.attempts, j.attempts.write(nil, false)) })
	j.attempts.again.Stop()
	return j, nil
}

// Close closes the files. Later writes fail with os.ErrClosed.
func (j *Journal) Close() error {
	for _, s := range j.streams() {
		s.close()
	}
	return nil
}

func (j *Journal) streams() []*stream { return []*stream{j.requests, j.attempts, j.errors} }

// maxPooled is the size of the largest buffer that is kept for reuse.
const maxPooled = 1 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Requests appends the lines in one write, and with Options.Sync returns when they are on disk. After an error some of
// them may have been written.
func (j *Journal) Requests(lines []RequestLine) error {
	return j.writeRequests(lines, false)
}

// Durably is Requests, but always returns only when the lines are on disk.
func (j *Journal) Durably(lines []RequestLine) error {
	return j.writeRequests(lines, true)
}

func (j *Journal) writeRequests(lines []RequestLine, durable bool) error {
	return j.write(j.requests, len(lines), durable, func(b []byte, i int, now time.Time) []byte {
		return lines[i].append(b, now)
	})
}

// Attempts is Requests for attempts. After an error a bounded number of lines is kept in memory, and written when that
// is possible: a job delivered while the disk was full must not be called again after a loss of data.
func (j *Journal) Attempts(lines []AttemptLine) error {
	return j.write(j.attempts, len(lines), false, func(b []byte, i int, now time.Time) []byte {
		return lines[i].append(b, now, j.opts.Process)
	})
}

// Error appends one error.
func (j *Journal) Error(line ErrorLine) error {
	return j.write(j.errors, 1, false, func(b []byte, _ int, now time.Time) []byte {
		return line.append(b, now, j.opts.Process)
	})
}

func (j *Journal) write(
	s *stream, n int, durable bool, appendLine func(b []byte, i int, now time.Time) []byte,
) error {
	if n == 0 {
		return nil
	}
	buffer := buffers.Get().(*[]byte)
	now := j.opts.Now()
	b := (*buffer)[:0]
	for i := range n {
		b = appendLine(b, i, now)
	}
	err := s.write(b, durable)
	if cap(b) <= maxPooled {
		*buffer = b
		buffers.Put(buffer)
	}
	j.logHealth(s, err)
	return err
}

// logHealth logs the first failed write of a stream, and the first one that succeeds again.
func (j *Journal) logHealth(s *stream, err error) {
	switch {
	case err != nil && !errors.Is(err, os.ErrClosed):
		if s.logged.CompareAndSwap(false, true) {
			j.opts.Logger.Error("the journal cannot be written; every write tries again",
				"dir", j.opts.Dir, "stream", s.name, "error", err)
		}
	case err == nil && s.logged.Load() && s.err() == nil:
		if s.logged.CompareAndSwap(true, false) {
			j.opts.Logger.Info("the journal can be written again", "dir", j.opts.Dir, "stream", s.name)
		}
	}
}

// Accepting returns nil while Requests can be written, as far as is known. Call it before work that must be journalled
// afterwards. It probes all streams, so that each recovers by itself.
func (j *Journal) Accepting() error {
	_ = j.Probe() // errors of other streams stop no request; the log and alerts report them
	return j.requests.err()
}

// Healthy returns an error if the last write of any stream failed. It does not write.
func (j *Journal) Healthy() error {
	for _, s := range j.streams() {
		if err := s.err(); err != nil {
			return err
		}
	}
	return nil
}

// Probe is Healthy, but an unhealthy journal tries a write, once a second at most, and recovers when that succeeds.
func (j *Journal) Probe() error {
	err := j.Healthy()
	if err == nil || !j.mayProbe() {
		return err
	}
	if err := j.scratch(); err != nil {
		return err
	}
	for _, s := range j.streams() {
		if s.err() == nil {
			continue
		}
		if err := s.write([]byte{'\n'}, false); err != nil {
			return err
		}
		j.logHealth(s, nil)
	}
	return nil
}

// Try is Probe, but also writes when the journal is healthy. It is for a process that hardly ever writes: the disk may
// be full for the other processes.
func (j *Journal) Try() error {
	if err := j.Probe(); err != nil {
		return err
	}
	return j.scratch()
}

const probeEvery = time.Second

func (j *Journal) mayProbe() bool {
	last, now := j.lastProbe.Load(), j.opts.Now().UnixNano()
	if age := time.Duration(now - last); age.Abs() < probeEvery {
		return false
	}
	return j.lastProbe.CompareAndSwap(last, now)
}

// probeRoom is how many bytes a disk must accept before it counts as having room again: a single newline often fits
// into the last page of a file on a full disk.
const probeRoom = 256 << 10

func (j *Journal) scratch() error {
	f, err := os.CreateTemp(j.opts.Dir, disk.Unfinished)
	if err == nil {
		_, err = f.Write(make([]byte, probeRoom))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return fmt.Errorf("writing to the journal's directory: %w", err)
	}
	return nil
}
