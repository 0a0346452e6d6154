package journal

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Found is a line about a job: a request or an attempt.
type Found struct {
	Request *RequestLine
	Attempt *AttemptLine
}

// Progress is how far a search has come.
type Progress struct {
	Read  int64     `json:"read"` // bytes of the files, as they are on the disk
	Total int64     `json:"total"`
	Day   time.Time `json:"day,omitzero"` // of the file that is being read
}

// progressEvery is how many lines a search reads between two calls of its progress.
const progressEvery = 10_000

// Wanted selects the lines of a search: those about the jobs with an ID, and those that cleared a topic; or those that
// cancelled a Group.
type Wanted struct{ ID, Group string }

// Search yields the lines that are wanted, in any order within a day and the newest day first. It reads all files
// once, also compressed ones, with little memory, and calls progress now and then. It leaves out torn lines, and goes
// on after a file that cannot be read.
func Search(
	ctx context.Context, dir string, wanted Wanted, progress func(Progress), found func(Found),
) error {
	files, err := listFiles(dir)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f dayFile) bool {
		return f.stream == Errors || wanted.Group != "" && f.stream != Requests
	})
	slices.SortStableFunc(files, func(a, b dayFile) int { return b.day.Compare(a.day) })
	s := &search{found: found, progress: progress, ofGroup: wanted.Group != ""}
	if s.needle, err = memberOf(wanted); err != nil {
		return err
	}
	for _, f := range files {
		if info, err := os.Stat(filepath.Join(dir, f.name)); err == nil {
			s.at.Total += info.Size()
		}
	}
	var errs []error
	for _, f := range files {
		s.at.Day = f.day
		s.progress(s.at)
		errs = append(errs, s.file(ctx, dir, f))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	s.progress(s.at)
	return errors.Join(errs...)
}

// search is a search under way.
type search struct {
	needle   []byte // in each line about a job with the id, or about the group
	ofGroup  bool
	found    func(Found)
	progress func(Progress)
	at       Progress
}

// memberOf returns the member of a line with an id or a group. Quotes in texts are escaped, so it occurs nowhere else.
func memberOf(w Wanted) ([]byte, error) {
	line, err := appendLine(nil, &requestWire{ID: w.ID, Group: w.Group})
	if err != nil {
		return nil, err
	}
	_, member, _ := bytes.Cut(line, []byte(`,`))
	return append([]byte(`,`), member[:len(member)-checksumSize-len("\n")]...), nil
}

func (s *search) file(ctx context.Context, dir string, f dayFile) error {
	file, err := openDay(dir, f)
	if err != nil {
		return fmt.Errorf("search the journal: %w", err)
	}
	defer file.Close()
	counted := &counter{Reader: file, n: &s.at.Read}
	var from io.Reader = counted
	if f.packed || file.Name() != filepath.Join(dir, f.name) {
		if from, err = gzip.NewReader(bufio.NewReaderSize(counted, 64<<10)); err != nil {
			return fmt.Errorf("search the journal's %s: %w", f.name, err)
		}
	}
	lines := bufio.NewReaderSize(from, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) { // only a very long body
			line = bytes.Clone(line)
			var rest []byte
			rest, err = lines.ReadBytes('\n')
			line = append(line, rest...)
		}
		s.line(f.stream, line)
		if n%progressEvery == 0 {
			s.progress(s.at)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("search the journal's %s: %w", f.name, err)
		}
	}
}

// counter counts what is read.
type counter struct {
	io.Reader
	n *int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	*c.n += int64(n)
	return n, err
}

// clears and cancels follow the time of a line that cleared a topic, or cancelled a group.
var (
	clears  = []byte(`","op":"` + string(OpClear) + `"`)
	cancels = []byte(`","op":"` + string(OpCancel) + `"`)
)

const opAt = len(lineStart) + len(timeForm)

func (s *search) wants(stream Stream, line []byte) bool {
	is := func(op []byte) bool {
		return stream == Requests && len(line) > opAt && bytes.HasPrefix(line[opAt:], op)
	}
	if s.ofGroup {
		return is(cancels) && bytes.Contains(line, s.needle)
	}
	return is(clears) || bytes.Contains(line, s.needle)
}

func (s *search) line(stream Stream, line []byte) {
	if !s.wants(stream, line) {
		return
	}
	readLine(&TornError{}, bytes.TrimSpace(line), func(whole []byte, _ *TornError, err error) bool {
		if err != nil {
			return true
		}
		if stream == Attempts {
			if l, err := readAttempt(whole); err == nil {
				s.found(Found{Attempt: &l})
			}
		} else if l, err := readRequest(whole); err == nil {
			s.found(Found{Request: &l})
		}
		return true
	})
}
