package journal

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
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
	j.attempts.retry = time.AfterFunc(probeEvery, func() { j.logHealth(j.attempts, j.attempts.write(nil, false)) })
	j.attempts.retry.Stop()
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
	return j.write(j.requests, len(lines), durable, func(b []byte, i int, now time.Time) ([]byte, error) {
		return lines[i].append(b, now)
	})
}

// Attempts is Requests for attempts. After an error a bounded number of lines is kept in memory, and written when that
// is possible: a job delivered while the disk was full must not be called again after a loss of data.
func (j *Journal) Attempts(lines []AttemptLine) error {
	return j.write(j.attempts, len(lines), false, func(b []byte, i int, now time.Time) ([]byte, error) {
		return lines[i].append(b, now, j.opts.Process)
	})
}

// Error appends one error.
func (j *Journal) Error(line ErrorLine) error {
	return j.write(j.errors, 1, false, func(b []byte, _ int, now time.Time) ([]byte, error) {
		return line.append(b, now, j.opts.Process)
	})
}

func (j *Journal) write(
	s *stream, n int, durable bool, appendLine func(b []byte, i int, now time.Time) ([]byte, error),
) (err error) {
	if n == 0 {
		return nil
	}
	buffer := buffers.Get().(*[]byte)
	now := j.opts.Now()
	b := (*buffer)[:0]
	for i := range n {
		if b, err = appendLine(b, i, now); err != nil {
			return err
		}
	}
	err = s.write(b, durable)
	if cap(b) <= maxPooled {
		*buffer = b
		buffers.Put(buffer)
	}
	if err != nil || s.logged.Load() {
		j.logHealth(s, err)
	}
	return err
}
