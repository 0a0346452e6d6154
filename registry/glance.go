package registry

import (
	"os"
	"syscall"
	"time"
)

// A glance is what SQLite's files were like. To ask SQLite costs a hundred times as much, and every process of a host looks twice a second.
type glance struct {
	at    time.Time
	files [2]fileState // the database, and its write-ahead log: whoever changes something writes to one of them
}

type fileState struct {
	inode   uint64
	size    int64
	written int64 // Unix nanoseconds
}

const (
	// glanceFor is how long glances are trusted before SQLite is asked all the same.
	glanceFor = 10 * time.Second
	// glanceAfter is how old a file's last write must be for the next one to have another time: the system's clock of files ticks every 10 ms at worst.
	glanceAfter = 100 * time.Millisecond
)

func glanceAt(path string) glance {
	g := glance{at: time.Now()}
	for i, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			continue // as if it were empty; why it is away is for SQLite to say
		}
		g.files[i] = fileState{size: info.Size(), written: info.ModTime().UnixNano()}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			g.files[i].inode = s.Ino
		}
	}
	return g
}

// tells says whether nothing can have changed since was, which SQLite was asked after. The last write then must have been old enough, and its time more
// exact than seconds: a later one could have the same.
func (g glance) tells(was glance) bool {
	if was.files[0].size == 0 || g.files != was.files || g.at.Sub(was.at) >= glanceFor {
		return false
	}
	for _, f := range was.files {
		if f.size > 0 && (was.at.UnixNano()-f.written < int64(glanceAfter) || f.written%int64(time.Second) == 0) {
			return false
		}
	}
	return true
}
