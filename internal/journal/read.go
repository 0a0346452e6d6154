package journal

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Range selects the lines to read.
type Range struct {
	Since time.Time // only lines since this time; zero: all
	From  Position  // only lines after this position
}

func (r Range) hasDay(d time.Time) bool {
	// A line may be in the file of the next day, since its ts is taken before the write.
	return d.Add(day).After(r.Since)
}

// TornError is the error of a line that cannot be read, for example because its writer was killed.
type TornError struct {
	File string
	Line int // counted from where reading began; with Range.Since that may be inside the file
	Err  error
}

func (e *TornError) Error() string {
	return fmt.Sprintf("%s:%d: torn line: %v", e.File, e.Line, e.Err)
}
func (e *TornError) Unwrap() error { return e.Err }

// ReadRequests yields the accepted requests in order, from plain and compressed files. Other processes may write
// meanwhile. A line may be yielded twice, if its file was being compressed or a push was repeated after an error.
//
// An error is yielded in place of a line. The loop may go on: with the next line after a *TornError, with the next file
// after any other error.
func ReadRequests(dir string, r Range) iter.Seq2[RequestLine, error] {
	return read(dir, Requests, r, readRequest, func(l *RequestLine) time.Time { return l.TS })
}

// ReadAttempts is ReadRequests for attempts.
func ReadAttempts(dir string, r Range) iter.Seq2[AttemptLine, error] {
	return read(dir, Attempts, r, readAttempt, func(l *AttemptLine) time.Time { return l.TS })
}

func read[T any](
	dir string, s Stream, r Range, decode func([]byte) (T, error), ts func(*T) time.Time,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		files, err := listFiles(dir)
		if err != nil {
			yield(none, err)
			return
		}
		for _, f := range inOrder(files, s, r) {
			goOn := readFile(dir, f, r, func(line []byte, at *TornError, err error) bool {
				if err != nil {
					return yield(none, err)
				}
				l, err := decode(line)
				if at.Err = err; err != nil {
					return yield(none, at)
				}
				return ts(&l).Before(r.Since) || yield(l, nil)
			})
			if !goOn {
				return
			}
		}
	}
}

// inOrder selects the files to read. The packed file of a day comes before the plain one, since it is older.
func inOrder(files []dayFile, s Stream, r Range) (selected []dayFile) {
	for _, f := range files {
		if _, whole := r.From.skip(f); f.stream != s || whole || !r.hasDay(f.day) {
			continue
		}
		last := len(selected) - 1
		if last >= 0 && f.packed && selected[last].day.Equal(f.day) {
			selected[last].newer = true
			selected = append(selected[:last], f, selected[last])
			continue
		}
		selected = append(selected, f)
	}
	return selected
}

// yieldLine takes a line of valid JSON and its position, or an error, and reports whether to go on.
type yieldLine func(line []byte, at *TornError, err error) bool

// readFile yields the lines of a file and reports whether to go on with the next file.
func readFile(dir string, f dayFile, r Range, yield yieldLine) bool {
	file, err := openDay(dir, f)
	if err != nil {
		return yield(nil, nil, fmt.Errorf("reading the journal: %w", err))
	}
	defer file.Close()
	before, _ := r.From.skip(f)
	if before < 0 && !skipPacked(file, -before) {
		return true
	}
	var from io.Reader = file
	if f.packed || file.Name() != filepath.Join(dir, f.name) {
		if from, err = gzip.NewReader(bufio.NewReader(file)); err != nil {
			return yield(nil, nil, cannotRead(file, 1, err))
		}
	}
	inside := false
	if from == io.Reader(file) && !r.Since.IsZero() {
		if inside, err = skipTo(file, r.Since.Add(-tsSlack)); err != nil {
			return yield(nil, nil, fmt.Errorf("reading the journal's %s: %w", file.Name(), err))
		}
	}
	lines := bufio.NewReaderSize(from, 64<<10)
	if before > 0 && !inside {
		if _, err := io.CopyN(io.Discard, lines, before); err != nil {
			return true // the file is shorter
		}
	}
	if inside {
		if _, err := lines.ReadBytes('\n'); err != nil {
			return true // it was the file's last line
		}
	}
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if !readLine(&TornError{File: file.Name(), Line: number}, bytes.TrimSpace(line), yield) {
			return false
		}
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return yield(nil, nil, cannotRead(file, number, err))
		}
	}
}

// cannotRead returns the error of a file that cannot be read further. The rest of a packed file that was changed since
// it was written is torn: whoever reads the journal can do without it, but not without an unchanged file that is there.
func cannotRead(file *os.File, line int, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("reading the journal: %w", err)
	}
	return &TornError{File: file.Name(), Line: line, Err: err}
}

// gzipMember is how a member of a packed file begins.
var gzipMember = [3]byte{0x1f, 0x8b, 8}

// skipPacked seeks to the member that was added to a packed file since its length was before, and reports whether there
// is one. A file that somebody has packed anew is read from its beginning.
func skipPacked(file *os.File, before int64) (more bool) {
	var begin [3]byte
	switch n, err := file.ReadAt(begin[:], before); {
	case n == 0 && errors.Is(err, io.EOF):
		info, err := file.Stat()
		return err != nil || info.Size() < before
	case begin == gzipMember:
		_, _ = file.Seek(before, io.SeekStart) // of a file that can be read: cannot fail
	}
	return true
}

// tsSlack bounds how far lines of several processes are out of order.
const tsSlack = 10 * time.Second

// skipTo seeks to somewhere shortly before the first line that is not older than since, since a day's file may have
// hundreds of gigabytes. It reports whether it skipped anything.
func skipTo(file *os.File, since time.Time) (bool, error) {
	const near = 1 << 20
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	from, to := int64(0), info.Size()
	for to-from > near {
		middle := from + (to-from)/2
		at, ok, err := timeAfter(file, middle)
		if err != nil {
			return false, err
		}
		if ok && at.Before(since) {
			from = middle
		} else {
			to = middle
		}
	}
	_, err = file.Seek(from, io.SeekStart)
	return from > 0, err
}

// timeAfter returns the time of the first line that begins after an offset; ok is false if none is near.
func timeAfter(file *os.File, offset int64) (at time.Time, ok bool, err error) {
	var b [64 << 10]byte
	n, err := file.ReadAt(b[:], offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return at, false, err
	}
	_, line, found := bytes.Cut(b[:n], []byte("\n"+lineStart))
	if !found || len(line) < len(timeForm) {
		return at, false, nil
	}
	at, err = time.Parse(timeForm, string(line[:len(timeForm)]))
	return at, err == nil, nil
}

// openDay opens a file, or its packed file if it was compressed since the directory was listed.
func openDay(dir string, f dayFile) (*os.File, error) {
	path := filepath.Join(dir, f.name)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !f.packed {
		return os.Open(path + gz)
	}
	return file, err
}

// readLine yields a line. A torn line may be followed by a good one of another process.
func readLine(at *TornError, line []byte, yield yieldLine) bool {
	if len(line) == 0 {
		return true
	}
	if isWhole(line) {
		return yield(line, at, nil)
	}
	if !yield(nil, nil, &TornError{File: at.File, Line: at.Line, Err: errTorn}) {
		return false
	}
	for rest := line; len(rest) > 0; {
		i := bytes.Index(rest[1:], []byte(lineStart))
		if i < 0 {
			return true
		}
		rest = rest[1+i:]
		if isWhole(rest) {
			return yield(rest, at, nil)
		}
	}
	return true
}

var errTorn = errors.New("cut short or changed since it was written")

// skip returns how many bytes of a file come before the position; below 0: of the packed file as it is stored.
func (p Position) skip(f dayFile) (bytes int64, whole bool) {
	if p.isAfter(f.day) {
		return 0, true
	}
	i := slices.IndexFunc(p, func(e dayEnd) bool { return e.day.Equal(f.day) })
	if i < 0 || f.newer {
		return 0, false
	}
	bytes = p[i].requests
	if f.stream == Attempts {
		bytes = p[i].attempts
	}
	if bytes < 0 && !f.packed {
		return 0, false
	}
	return bytes, false
}
