package harness

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/test/harness/process"
)

// Disk is a small in-memory file system that can be full.
type Disk struct {
	Dir  string
	size string
}

// MountDisk mounts a disk on a directory, which needs root or a private mount namespace. It ends with the test.
func MountDisk(t testing.TB, dir, size string) (*Disk, error) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		return nil, fmt.Errorf("mounting a small disk on %s: %w (it needs root, or `unshare -rm`)", dir, err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return &Disk{dir, size}, nil
}

// NewDisk mounts a disk on a new directory, or skips the test.
func NewDisk(t testing.TB, size string) *Disk {
	t.Helper()
	d, err := MountDisk(t, process.Dir(t, "disk"), size)
	if err != nil {
		t.Skip(err)
	}
	return d
}

// Fill shrinks the disk to the size of its contents.
func (d *Disk) Fill() error {
	var err error
	for range 100 { // concurrent writes can make a size too small
		var fs syscall.Statfs_t
		if err = syscall.Statfs(d.Dir, &fs); err != nil {
			return fmt.Errorf("reading the size of %s: %w", d.Dir, err)
		}
		if err = d.resize(fmt.Sprint(max(1, fs.Blocks-fs.Bfree) * uint64(fs.Bsize))); err == nil {
			return nil
		}
	}
	return err
}

// Free restores the size of the disk.
func (d *Disk) Free() error { return d.resize(d.size) }

func (d *Disk) resize(size string) error {
	if err := syscall.Mount("", d.Dir, "", syscall.MS_REMOUNT, "size="+size); err != nil {
		return fmt.Errorf("resizing the disk at %s to %s: %w", d.Dir, size, err)
	}
	return nil
}
