package registry

import (
	"os"
	"time"

	"github.com/wakecall/wakecall/migrations"
)

// A glance looks at the files of SQLite, whether anybody has written to them. Every process of a host looks once a second, and at rest that is most of
// what it does: asking the database itself, if only for its PRAGMA data_version, takes twenty times as long.
type glance struct {
	r    *Registry
	last [2]os.FileInfo // the files as they were before the registry was followed last; nil: it is to be followed whatever they are
	at   time.Time      // when that was
}

const (
	// glanceFor is how long glances are trusted before the revision is read all the same.
	glanceFor = 30 * time.Second
	// stampLength is how far apart two writes may be that leave the same time with a file: a second where a file system counts those.
	stampLength = time.Second
)

// nothingNew says whether the registry is as it was when it was followed last.
func (g *glance) nothingNew() bool {
	if g.r.address.dialect != migrations.SQLite {
		return false
	}
	at := time.Now()
	files, ok := g.files()
	if ok && g.r.Up() && time.Since(g.at) < glanceFor && g.unchanged(files) {
		return true
	}
	g.last, g.at = files, at
	return false
}

func (g *glance) unchanged(files [2]os.FileInfo) bool {
	for i, f := range files {
		was := g.last[i]
		if was == nil || f.Size() != was.Size() || !f.ModTime().Equal(was.ModTime()) || !os.SameFile(f, was) || g.at.Sub(was.ModTime()) <= stampLength {
			return false
		}
	}
	return true
}

// files are the database and its log, to which every commit is written first (https://sqlite.org/wal.html); not ok without either: then it is kept
// in another way, or elsewhere.
func (g *glance) files() (files [2]os.FileInfo, ok bool) {
	for i, suffix := range []string{"", "-wal"} {
		f, err := os.Stat(g.r.address.path + suffix)
		if err != nil {
			return files, false
		}
		files[i] = f
	}
	return files, true
}
