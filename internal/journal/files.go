package journal

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// Stream is one of the three kinds of files.
type Stream string

// The streams of a journal.
const (
	Requests Stream = "request"
	Attempts Stream = "notify"
	Errors   Stream = "error"
)

const (
	dayForm = "20060102"
	day     = 24 * time.Hour
	suffix  = ".jsonl"
	gz      = ".gz"
)

func fileName(s Stream, t time.Time) string {
	return string(s) + "-" + t.UTC().Format(dayForm) + suffix
}

// dayFile is a file of the journal.
type dayFile struct {
	name   string
	stream Stream
	day    time.Time
	packed bool
	newer  bool // a plain file begun after its day was packed
}

var dayFileName = regexp.MustCompile(`^(request|notify|error)-(\d{8})\.jsonl(\.gz)?$`)

// listFiles lists the journal's own files by stream and by day; the packed file of a day comes after the plain one.
func listFiles(dir string) ([]dayFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing the journal: %w", err)
	}
	var files []dayFile
	for _, e := range entries {
		m := dayFileName.FindStringSubmatch(e.Name())
		if m == nil || !isFile(dir, e) {
			continue
		}
		d, err := time.Parse(dayForm, m[2])
		if err != nil {
			continue // not a date
		}
		files = append(files, dayFile{name: e.Name(), stream: Stream(m[1]), day: d, packed: m[3] != ""})
	}
	return files, nil
}

// isFile reports whether an entry is a file, or a symbolic link to one: writers follow links, so readers must.
func isFile(dir string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	info, err := os.Stat(filepath.Join(dir, e.Name()))
	return err == nil && info.Mode().IsRegular()
}
