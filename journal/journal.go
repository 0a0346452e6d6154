package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what a Journal needs to know.
type Options struct {
	Dir     string
	Keep    time.Duration // how long files are kept after their day; 0: for ever
	Process string        // what lines say that name no process
	Sync    bool          // Requests returns when its lines are on the disk; calls that wait share an fsync
	Logger  *slog.Logger  // nil: slog.Default
	Now     func() time.Time
}

// Journal writes the three streams. It is safe for concurrent use.
type Journal struct {
	opts      Options
	requests  *stream
	attempts  *stream
	errors    *stream
	lastProbe atomic.Int64 // Unix nanoseconds
}

// Open makes the directory. Files are opened when the first line is written.
func Open(opts Options) (*Journal, error) {
	if opts.Dir == "" {
		return nil, errors.New("opening the journal: no directory is named")
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	return &Journal{
		opts:     opts,
		requests: &stream{name: Requests, dir: opts.Dir, now: opts.Now, durable: opts.Sync},
		attempts: &stream{name: Attempts, dir: opts.Dir, now: opts.Now},
		errors:   &stream{name: Errors, dir: opts.Dir, now: opts.Now},
	}, nil
}

// Close closes the files. Later writes fail with os.ErrClosed.
func (j *Journal) Close() error {
	for _, s := range j.streams() {
		s.close()
	}
	return nil
}

func (j *Journal) streams() []*stream { return []*stream{j.requests, j.attempts, j.errors} }

// maxKept is the largest buffer that is kept for the next call. A batch of large bodies may need far more once.
const maxKept = 1 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Requests appends the lines by one write and returns when they are written, with Options.Sync to the disk. After an error none of them counts as
// written, though some may be.
func (j *Journal) Requests(lines []RequestLine) error {
	return j.writeRequests(lines, false)
}

// Durably is Requests, but the lines are on the disk when it returns whatever Options.Sync says.
func (j *Journal) Durably(lines []RequestLine) error {
	return j.writeRequests(lines, true)
}

func (j *Journal) writeRequests(lines []RequestLine, durable bool) error {
	return j.write(j.requests, len(lines), durable, func(b []byte, i int, now time.Time) []byte {
		return lines[i].append(b, now)
	})
}

// Attempts is Requests for attempts.
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
	if cap(b) <= maxKept {
		*buffer = b
		buffers.Put(buffer)
	}
	j.logHealth(s, err)
	return err
}

// logHealth logs when a stream stops and starts to work, not every write.
func (j *Journal) logHealth(s *stream, err error) {
	switch {
	case err != nil && !errors.Is(err, os.ErrClosed):
		if s.told.CompareAndSwap(false, true) {
			j.opts.Logger.Error("the journal cannot be written; it is tried again with every write", "dir", j.opts.Dir, "stream", s.name, "error", err)
		}
	case err == nil && s.told.Load() && s.err() == nil:
		if s.told.CompareAndSwap(true, false) {
			j.opts.Logger.Info("the journal is written again", "dir", j.opts.Dir, "stream", s.name)
		}
	}
}

// Accepting is nil while Requests can be written, as far as is known: an acknowledgement needs no other line than its own. Like Probe it tries,
// all streams, so that each is healthy again by itself. Call it before work that must be journalled afterwards.
func (j *Journal) Accepting() error {
	_ = j.Probe() // of the other streams, people are told by the log and by who asks Probe
	return j.requests.err()
}

// Healthy is nil unless the last write of a stream failed. It does not try.
func (j *Journal) Healthy() error {
	for _, s := range j.streams() {
		if err := s.err(); err != nil {
			return err
		}
	}
	return nil
}

// Probe is Healthy, but an unhealthy journal tries to write, once a second at most, and is healthy again if it can.
func (j *Journal) Probe() error {
	err := j.Healthy()
	if err == nil || !j.mayProbe() {
		return err
	}
	if err := j.scratch(); err != nil {
		return fmt.Errorf("writing to the journal's directory: %w", err)
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

const probeEvery = time.Second

func (j *Journal) mayProbe() bool {
	last, now := j.lastProbe.Load(), j.opts.Now().UnixNano()
	if age := time.Duration(now - last); age.Abs() < probeEvery {
		return false
	}
	return j.lastProbe.CompareAndSwap(last, now)
}

// probeRoom is how much must fit before a full disk counts as having room again: a single newline would often find a
// place in the last page of a file.
const probeRoom = 256 << 10

func (j *Journal) scratch() error {
	f, err := os.CreateTemp(j.opts.Dir, scratchPattern)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, zeros{}, probeRoom)
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
