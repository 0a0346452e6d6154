package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Write makes one write(2), and Sync one fsync(2) of a file or directory: the only ways in which a journal gets to the
// disk. Tests replace them by a disk that fails.
var (
	Write = writeOnce
	Sync  = (*os.File).Sync
)

// writeOnce makes one system call. After a short write, os.File.Write would make a second one for the rest, perhaps
// after lines of another process, which would tear the line apart.
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
