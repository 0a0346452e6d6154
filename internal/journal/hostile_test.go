package journal

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNoNameIsAPartOfAPath: whatever topics, ids, shards and processes are named, the journal creates only its own
// files, and each line is read as it was written.
func TestNoNameIsAPartOfAPath(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "journal")
	c := &clock{t: noon}
	j := open(t, dir, c)
	names := []string{"../../x", "..", "/etc/passwd", `..\..\x`, "%2e%2e%2fx", "a\x00b", "x.jsonl\n",
		"request-20250309.jsonl", strings.Repeat("../", 1000), "\xff/.."}
	for _, name := range names {
		if err := j.Requests([]RequestLine{{Op: OpPush, Topic: name, ID: name, Shard: name, ContentType: name,
			Body: []byte(name)}}); err != nil {
			t.Fatal(err)
		}
		if err := j.Attempts(
			[]AttemptLine{{Topic: name, ID: name, Outcome: Done, Error: name, Process: name}}); err != nil {
			t.Fatal(err)
		}
		if err := j.Error(ErrorLine{Where: name, Error: name, Context: name, Process: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	var back []string
	for l, err := range ReadRequests(dir, Range{}) {
		if err != nil || l.ID != l.Topic || l.Shard != l.Topic ||
			strings.ToValidUTF8(string(l.Body), "\ufffd") != l.Topic {
			t.Errorf("a line is %+v, %v", l, err)
		}
		back = append(back, l.Topic)
	}
	if strings.Join(back, "|") != strings.ToValidUTF8(strings.Join(names, "|"), "\ufffd") {
		t.Errorf("%q was written, %q is read", names, back)
	}
	own := regexp.MustCompile(`^(a|a/journal|a/journal/(\.[a-z]+|(request|notify|error)-20250309\.jsonl))$`)
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if name, _ := filepath.Rel(root, path); err != nil || name != "." && !own.MatchString(name) {
			t.Errorf("there is %q, %v", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
