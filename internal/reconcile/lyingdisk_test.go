package reconcile

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/internal/disk"
)

// lyingDisk stands between a journal and its files. It knows which names and bytes are on disk, because they were
// synced; what a power cut leaves of the others is up to chance. Names reach the disk in the order of their changes.
type lyingDisk struct {
	r       *rand.Rand
	dir     string // of the journal
	inodes  string // has a link to each file, so that a removed one can come back
	cutAt   int    // number of the write or sync at which the power is cut
	failing float64

	mu     sync.Mutex
	ops    int
	off    bool
	names  map[string]uint64 // on disk
	synced map[uint64]int64  // how many bytes of a file are on disk
	lost   map[uint64][]span // bytes that a failed sync has dropped
	told   map[*os.File]int  // how many failed syncs of its file a descriptor has reported, or is too new to report
}

type span struct{ from, to int64 }

func newLyingDisk(t *testing.T, r *rand.Rand, dir string) *lyingDisk {
	d := &lyingDisk{r: r, dir: dir, inodes: t.TempDir(), cutAt: 1 + r.IntN(60), synced: map[uint64]int64{},
		lost: map[uint64][]span{}, told: map[*os.File]int{}}
	if r.IntN(2) == 0 {
		d.failing = 0.25 * r.Float64()
	}
	d.names = d.look()
	for _, inode := range d.names { // what an earlier cut has left is on disk
		d.synced[inode] = d.size(inode)
	}
	disk.Write, disk.Sync = d.write, d.sync
	return d
}

// look returns the present names, and links the files that are new.
func (d *lyingDisk) look() map[string]uint64 {
	names := map[string]uint64{}
	entries, _ := os.ReadDir(d.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			names[e.Name()] = inodeOf(info)
			_ = os.Link(filepath.Join(d.dir, e.Name()), d.linked(inodeOf(info))) // exists already, mostly
		}
	}
	return names
}

func inodeOf(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

func (d *lyingDisk) linked(inode uint64) string { return filepath.Join(d.inodes, fmt.Sprint(inode)) }

func (d *lyingDisk) size(inode uint64) int64 {
	info, err := os.Stat(d.linked(inode))
	if err != nil {
		return 0
	}
	return info.Size()
}

// step counts an operation, and returns the error with which it fails.
func (d *lyingDisk) step(errs ...error) (err error) {
	d.look()
	if d.ops++; d.ops == d.cutAt {
		d.off = true
	}
	if d.off || d.r.Float64() < d.failing {
		return errs[d.r.IntN(len(errs))]
	}
	return nil
}

// write fails on a disk that is full or read-only, after some of the bytes.
func (d *lyingDisk) write(f *os.File, b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return 0, syscall.EIO
	}
	err := d.step(syscall.ENOSPC, io.ErrShortWrite, syscall.EROFS)
	if err == io.ErrShortWrite || d.off {
		b = b[:d.r.IntN(len(b)+1)]
	} else if err != nil {
		return 0, err
	}
	n, failed := f.Write(b)
	if failed != nil {
		return n, failed
	}
	return n, err
}

// sync forgets the bytes that it could not write: the next sync succeeds without them. Every descriptor that was open
// reports the failure once.
func (d *lyingDisk) sync(f *os.File) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := f.Stat()
	if d.off || err != nil {
		return syscall.EIO
	}
	inode := inodeOf(info)
	err = d.step(syscall.EIO, syscall.ENOSPC)
	switch {
	case d.off:
		return err
	case info.IsDir():
		if err == nil {
			d.names = d.look()
		}
		return err
	case err != nil:
		d.lost[inode] = append(d.lost[inode], span{d.synced[inode], info.Size()})
	}
	d.synced[inode] = info.Size()
	if failures := len(d.lost[inode]); d.told[f] < failures {
		d.told[f] = failures
		return syscall.EIO
	}
	return err
}

// cut returns a directory with what a power cut leaves.
func (d *lyingDisk) cut(t *testing.T) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	names, to := d.names, t.TempDir()
	if now := d.look(); d.r.IntN(2) == 0 {
		names = now
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		inode := names[name]
		b, err := os.ReadFile(d.linked(inode))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), d.survives(b, inode), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

const sector = 64 // small, so that lines have several

// survives returns what is left of a file. Sectors that were not synced are there, or zero, or beyond its end.
func (d *lyingDisk) survives(b []byte, inode uint64) []byte {
	synced := d.synced[inode]
	for _, s := range d.lost[inode] {
		clear(b[s.from:s.to])
	}
	b = b[:synced+d.r.Int64N(int64(len(b))-synced+1)]
	for at := synced; at < int64(len(b)); at += sector {
		if d.r.IntN(8) == 0 {
			clear(b[at:min(at+sector, int64(len(b)))])
		}
	}
	return b
}

// killed returns a directory with all that was written: every process has died, and the machine runs.
func (d *lyingDisk) killed(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(d.dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// flip flips one bit in a file.
func flip(t *testing.T, r *rand.Rand, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil || len(b) == 0 {
		return
	}
	b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
