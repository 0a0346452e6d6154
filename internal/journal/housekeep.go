package journal

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
)

const (
	lockName      = ".lock"
	afterMidnight = 5 * time.Second  // by then the other processes write to the new day's file
	retryBusy     = 10 * time.Minute // after a file was in use; a change of the clock is noticed as soon
)

// RunHousekeeping calls Housekeep at once and after each UTC midnight, until ctx is done.
func (j *Journal) RunHousekeeping(ctx context.Context) error {
	var done time.Time // the day for which all work is done
	for {
		today := j.opts.Now().Add(-afterMidnight).UTC().Truncate(day)
		if !today.Equal(done) {
			complete, err := j.Housekeep(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				j.opts.Logger.Error("compressing or removing old journal files failed; retrying later",
					"dir", j.opts.Dir, "retry", retryBusy, "error", err)
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
// process does the same, and skips files that another process has open. One goroutine may call it.
func (j *Journal) Housekeep(ctx context.Context) (complete bool, err error) {
	now := j.opts.Now()
	for _, s := range j.streams() {
		s.releasePast(now)
	}
	lock, err := os.OpenFile(filepath.Join(j.opts.Dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, fmt.Errorf("locking the journal: %w", err)
	}
	defer lock.Close()
	if err := disk.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("locking the journal: %w", err)
	}
	files, err := listFiles(j.opts.Dir)
	if err != nil {
		return false, err
	}
	// Remove first, since compressing needs room.
	today := now.UTC().Truncate(day)
	if err = disk.RemoveUnfinished(j.opts.Dir, now); err != nil {
		err = fmt.Errorf("removing the temporary files of the journal: %w", err)
	}
	complete, failed := j.removeOld(files, now)
	err = errors.Join(err, failed)
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

func (j *Journal) isOld(f dayFile, now time.Time) bool {
	return j.opts.Keep > 0 && now.Sub(f.day.Add(day)) > j.opts.Keep
}

// removeOld removes files that an earlier call, retryBusy ago, found old as well: a clock that is days ahead for a
// moment must not cost the journal. complete reports whether none has to wait.
func (j *Journal) removeOld(files []dayFile, now time.Time) (complete bool, err error) {
	since := map[string]time.Time{}
	for _, f := range files {
		if !j.isOld(f, now) {
			continue
		}
		first, known := j.oldSince[f.name]
		if !known {
			first = now
		}
		if now.Sub(first) < retryBusy {
			since[f.name] = first
			continue
		}
		if failed := os.Remove(filepath.Join(j.opts.Dir, f.name)); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			since[f.name] = first
			err = errors.Join(err, fmt.Errorf("removing an old file of the journal: %w", failed))
		}
	}
	j.oldSince = since
	return len(since) == 0, err
}

// pack compresses one file: it writes a temporary file, syncs it, renames it to the packed file's name and then removes
// the plain file. A crash in between leaves both, and the next run finds that the packed file ends with the plain one's
// content. A plain file that appears after its day was packed becomes one more gzip member.
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
	if err := disk.Flock(plainFile, syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	isPacked, err := endsWith(path+gz, plainFile)
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

// endsWith reports whether the packed file's last member has the plain file's content. It compares the checksum and the
// size at the end of the member.
func endsWith(packed string, plainFile *os.File) (bool, error) {
	f, err := os.Open(packed)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	var trailer [8]byte
	info, err := f.Stat()
	if err == nil {
		_, err = f.ReadAt(trailer[:], info.Size()-int64(len(trailer)))
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w (move it away)", packed, err)
	}
	checksum := crc32.NewIEEE()
	n, err := io.Copy(checksum, io.NewSectionReader(plainFile, 0, 1<<62))
	want := binary.LittleEndian.AppendUint32(nil, checksum.Sum32())
	want = binary.LittleEndian.AppendUint32(want, uint32(n)) //nolint:gosec // the size modulo 2^32, as in gzip
	return bytes.Equal(trailer[:], want), err
}

// appendMemberTo adds the plain file's content to the packed file, which it creates if necessary.
func appendMemberTo(ctx context.Context, packed string, plainFile *os.File) error {
	return disk.Replace(packed, func(f *os.File) error {
		if err := copyExisting(ctx, f, packed); err != nil {
			return err
		}
		// The fastest level, since callbacks need the processor.
		z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
		if err != nil {
			return err
		}
		z.Name = strings.TrimSuffix(filepath.Base(packed), gz)
		if _, err := io.Copy(z, &untilDone{ctx, io.NewSectionReader(plainFile, 0, 1<<62)}); err != nil {
			return err
		}
		return z.Close()
	})
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
