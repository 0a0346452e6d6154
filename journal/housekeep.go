package journal

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	lockName       = ".lock"
	scratchPattern = ".tmp-*"
	afterMidnight  = 5 * time.Second  // until the other processes have moved on to the new day's file
	retryBusy      = 10 * time.Minute // when a file was still in use; also how soon a change of the clock is noticed
)

// RunHousekeeping does Housekeep at once and after each UTC midnight, until ctx is done.
func (j *Journal) RunHousekeeping(ctx context.Context) error {
	var done time.Time // the day for which everything is done
	for {
		today := j.opts.Now().Add(-afterMidnight).UTC().Truncate(day)
		if !today.Equal(done) {
			complete, err := j.housekeep(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				j.opts.Logger.Error("compressing and removing old files of the journal failed; it is tried again", "dir", j.opts.Dir,
					"retry", retryBusy, "error", err)
			} else if complete {
				done = today
			}
		}
		wait := min(today.Add(day+afterMidnight).Sub(j.opts.Now()), retryBusy)
		timer := time.NewTimer(max(wait, time.Second))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// Housekeep removes files older than Keep and compresses those of the days before today. It does nothing while another
// process is at it, and leaves out files that another process still has open.
func (j *Journal) Housekeep(ctx context.Context) error {
	_, err := j.housekeep(ctx)
	return err
}

// housekeep says whether everything is done; if not, some file is in use or another process is at work.
func (j *Journal) housekeep(ctx context.Context) (complete bool, err error) {
	now := j.opts.Now()
	for _, s := range j.streams() {
		s.releasePast(now)
	}
	lock, err := os.OpenFile(filepath.Join(j.opts.Dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, fmt.Errorf("locking the journal: %w", err)
	}
	defer lock.Close()
	if err := flock(lock, syscall.LOCK_EX); errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("locking the journal: %w", err)
	}
	files, err := listFiles(j.opts.Dir)
	if err != nil {
		return false, err
	}
	// Removing comes first: it makes the room that compressing needs.
	today := now.UTC().Truncate(day)
	err = errors.Join(j.removeScratch(now), j.removeOld(files, now))
	complete = true
	for _, f := range files {
		if f.packed || !f.day.Before(today) || j.isOld(f, now) {
			continue
		}
		if ctx.Err() != nil {
			return false, errors.Join(err, ctx.Err())
		}
		packed, packErr := pack(ctx, j.opts.Dir, f.name)
		complete = complete && packed
		err = errors.Join(err, packErr)
	}
	return complete && err == nil, err
}

// dayFile is a file of the journal.
type dayFile struct {
	name   string
	stream Stream
	day    time.Time
	packed bool
}

var dayFileName = regexp.MustCompile(`^(request|notify|error)-(\d{8})\.jsonl(\.gz)?$`)

// listFiles lists the journal's own files by name, which is by stream, by day, and the packed one of a day last.
func listFiles(dir string) ([]dayFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing the journal: %w", err)
	}
	var files []dayFile
	for _, e := range entries {
		m := dayFileName.FindStringSubmatch(e.Name())
		if m == nil || !e.Type().IsRegular() {
			continue
		}
		d, err := time.Parse(dayForm, m[2])
		if err != nil {
			continue // a name like ours with an impossible date
		}
		files = append(files, dayFile{name: e.Name(), stream: Stream(m[1]), day: d, packed: m[3] != ""})
	}
	return files, nil
}

func (j *Journal) isOld(f dayFile, now time.Time) bool {
	return j.opts.Keep > 0 && now.Sub(f.day.Add(day)) > j.opts.Keep
}

func (j *Journal) removeOld(files []dayFile, now time.Time) error {
	var failed error
	for _, f := range files {
		if !j.isOld(f, now) {
			continue
		}
		if err := os.Remove(filepath.Join(j.opts.Dir, f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("removing an old file of the journal: %w", err))
		}
	}
	return failed
}

// removeScratch removes what a process left that was killed while it compressed or probed. A probe that is going on
// holds its file for a moment only.
func (j *Journal) removeScratch(now time.Time) error {
	names, err := filepath.Glob(filepath.Join(j.opts.Dir, scratchPattern))
	if err != nil {
		return fmt.Errorf("listing the journal: %w", err)
	}
	var failed error
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("removing a leftover of the journal: %w", err))
		}
	}
	return failed
}

// pack compresses one file: a temporary file is made durable, takes the packed file's name, and only then the plain one
// goes. It is killed anywhere without loss: at worst the plain file is still there, and the next run finds its content
// packed already. A plain file that appeared after its day was packed becomes one more gzip member.
func pack(ctx context.Context, dir, name string) (done bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("compressing the journal's %s: %w", name, err)
		}
	}()
	path := filepath.Join(dir, name)
	plainFile, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer plainFile.Close()
	if err := flock(plainFile, syscall.LOCK_EX); errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	isPacked, err := holds(path+gz, plainFile)
	if err != nil {
		return false, err
	}
	if !isPacked {
		if err := appendMemberTo(ctx, path+gz, plainFile); err != nil {
			return false, err
		}
	}
	return true, os.Remove(path)
}

// holds says whether a member of the packed file has the plain file's content.
func holds(packed string, plainFile *os.File) (bool, error) {
	f, err := os.Open(packed)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	want, err := sumOf(io.NewSectionReader(plainFile, 0, 1<<62))
	if err != nil {
		return false, err
	}
	buffered := bufio.NewReader(f)
	z, err := gzip.NewReader(buffered)
	for err == nil {
		z.Multistream(false)
		var got sum
		if got, err = sumOf(z); err != nil {
			break
		}
		if got == want {
			return true, nil
		}
		err = z.Reset(buffered)
	}
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return false, fmt.Errorf("reading %s: %w (move it away)", packed, err)
}

type sum struct {
	crc  uint32
	size int64
}

func sumOf(r io.Reader) (sum, error) {
	h := crc32.NewIEEE()
	n, err := io.Copy(h, r)
	return sum{h.Sum32(), n}, err
}

// appendMemberTo replaces the packed file, if there is one, by one with the plain file's content behind it.
func appendMemberTo(ctx context.Context, packed string, plainFile *os.File) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(packed), scratchPattern) // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		tmp.Close()
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	if err := copyExisting(ctx, tmp, packed); err != nil {
		return err
	}
	// Speed, since this competes with callbacks for the processor.
	z, err := gzip.NewWriterLevel(tmp, gzip.BestSpeed)
	if err != nil {
		return err
	}
	z.Name = strings.TrimSuffix(filepath.Base(packed), gz)
	if _, err := io.Copy(z, &untilDone{ctx, io.NewSectionReader(plainFile, 0, 1<<62)}); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), packed); err != nil {
		return err
	}
	return syncDir(filepath.Dir(packed))
}

func copyExisting(ctx context.Context, to io.Writer, name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, &untilDone{ctx, f})
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// untilDone stops a long copy when the context ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}
