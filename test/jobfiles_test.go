package test

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// update makes TestFilesOfAJob write the list of the document, instead of comparing it:
//
//	go test ./test -run TestFilesOfAJob -update
var update = flag.Bool("update", false, "write the list of the files that a job executes to docs/architecture.md")

const (
	architecture = "../docs/architecture.md"
	listBegins   = "<!-- files of a job: begin, written by go test ./test -run TestFilesOfAJob -update -->"
	listEnds     = "<!-- files of a job: end -->"
	// forPeople marks a file, or in a doc.go all files of its package, that only counts, measures or shows, or watches such
	// figures.
	forPeople = "//wakecall:figures"
	module    = "github.com/wakecall/wakecall/"
)

// TestFilesOfAJob: docs/architecture.md lists the Go files of which one job executes something that an idle installation
// does not. A binary built with -cover runs idle, and with one job whose first attempt is refused. Each runs twice:
// what a job executes is what both runs with one executed, and none of the idle ones.
func TestFilesOfAJob(t *testing.T) {
	needProcesses(t)
	listed := listedFiles(t)
	for _, file := range listed {
		if _, err := os.Stat(filepath.Join("..", file)); err != nil && !*update {
			t.Errorf("%s lists %s: %v", architecture, file, err)
		}
	}
	if !harness.Long() && !*update {
		return // building the binary takes a minute
	}
	binary := harness.Build(t, "-cover", "-coverpkg="+module+"...")
	job := coveredBy(t, binary, true).and(coveredBy(t, binary, true))
	idle := coveredBy(t, binary, false).or(coveredBy(t, binary, false))
	files := job.without(idle).byFile(t)
	if *update {
		writeList(t, files)
		return
	}
	for _, f := range files {
		if !slices.Contains(listed, f.name) {
			t.Errorf("%s does not list %s; go test ./test -run TestFilesOfAJob -update writes the list", architecture, f.name)
		}
	}
	for _, name := range listed {
		if !slices.ContainsFunc(files, func(f jobFile) bool { return f.name == name }) {
			t.Errorf("%s lists %s, of which no job executes anything", architecture, name)
		}
	}
}

// block is a block of statements, as a coverage profile names it: file:line.column,line.column
type block string

type blocks map[block]bool

func (b blocks) and(other blocks) blocks {
	both := blocks{}
	for k := range b {
		if other[k] {
			both[k] = true
		}
	}
	return both
}

func (b blocks) or(other blocks) blocks {
	for k := range other {
		b[k] = true
	}
	return b
}

func (b blocks) without(other blocks) blocks {
	rest := blocks{}
	for k := range b {
		if !other[k] {
			rest[k] = true
		}
	}
	return rest
}

// idleTime is how long an installation runs idle: longer than a job takes, so that what is done now and then is seen.
const idleTime = 12 * time.Second

// coveredBy returns the blocks that an installation executes, with one job or idle.
func coveredBy(t *testing.T, binary string, withJob bool) blocks {
	t.Helper()
	dir := process.Dir(t, "cover")
	i := start(t, harness.Options{Binary: binary, Env: map[string]string{"GOCOVERDIR": dir}})
	i.put(t, "one", harness.FirstCalls(1, harness.Status(http.StatusBadRequest), harness.Status(http.StatusOK)),
		M{"retry": []string{"1s"}})
	if withJob {
		i.MustDo(t, http.StatusCreated, http.MethodPost, "/v1/topics/one/jobs", M{"id": "x", "body": 1, "delay": "1s"})
		i.endpoint.WaitCalls(t, "one", 2)
		time.Sleep(time.Second) // the outcome is settled, in the journal and counted
	} else {
		time.Sleep(idleTime)
	}
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	profile := filepath.Join(dir, "profile")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile).CombinedOutput(); err != nil {
		t.Fatalf("read the coverage: %v\n%s", err, out)
	}
	file, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	executed := blocks{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // block, statements, how often
		if len(fields) == 3 && fields[2] != "0" {
			executed[block(strings.TrimPrefix(fields[0], module))] = true
		}
	}
	if len(executed) == 0 {
		t.Fatal("the binary wrote no coverage")
	}
	return executed
}

// jobFile is a file of which a job executes something.
type jobFile struct {
	name            string
	lines, executed int
}

var blockParts = regexp.MustCompile(`^(.*):(\d+)\.\d+,(\d+)\.\d+$`)

// byFile returns the files of the blocks in alphabetical order, without those that are for people.
func (b blocks) byFile(t *testing.T) (files []jobFile) {
	t.Helper()
	lines := map[string]map[int]bool{}
	for k := range b {
		part := blockParts.FindStringSubmatch(string(k))
		if part == nil {
			t.Fatalf("the profile has %q", k)
		}
		if lines[part[1]] == nil {
			lines[part[1]] = map[int]bool{}
		}
		first, _ := strconv.Atoi(part[2])
		last, _ := strconv.Atoi(part[3])
		for n := first; n <= last; n++ {
			lines[part[1]][n] = true
		}
	}
	total, executed := 0, 0
	for name, its := range lines {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		about, _ := os.ReadFile(filepath.Join("..", filepath.Dir(name), "doc.go"))
		if strings.Contains(string(text), "\n"+forPeople) || strings.Contains(string(about), "\n"+forPeople) ||
			strings.HasPrefix(string(text), forPeople) {
			continue
		}
		f := jobFile{name, strings.Count(string(text), "\n"), len(its)}
		files = append(files, f)
		total, executed = total+f.lines, executed+f.executed
	}
	slices.SortFunc(files, func(a, b jobFile) int {
		return cmp.Or(strings.Compare(filepath.Dir(a.name), filepath.Dir(b.name)), strings.Compare(a.name, b.name))
	})
	t.Logf("a job executes %d lines of %d files with %d lines", executed, len(files), total)
	for _, f := range files {
		t.Logf("%s: %d of %d lines", f.name, f.executed, f.lines)
	}
	return files
}

// documentWidth is where documents wrap.
const documentWidth = 100

var listItem = regexp.MustCompile("`([^`]+)`")

// listedFiles returns the files in the document's list. An item has a folder, and then the files in it.
func listedFiles(t *testing.T) (files []string) {
	t.Helper()
	_, list, _ := parts(t)
	for _, item := range strings.Split(list, "\n- ")[1:] {
		names := listItem.FindAllStringSubmatch(item, -1)
		for _, name := range names[1:] {
			files = append(files, filepath.Join(names[0][1], name[1]))
		}
	}
	return files
}

// parts returns the document's text before its list, the list, and the text after it.
func parts(t *testing.T) (before, list, after string) {
	t.Helper()
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), listBegins+"\n")
	list, after, ends := strings.Cut(rest, listEnds)
	if !begins || !ends {
		t.Fatalf("%s has no list between %s and %s", architecture, listBegins, listEnds)
	}
	return before, list, after
}

func writeList(t *testing.T, files []jobFile) {
	t.Helper()
	before, _, after := parts(t)
	var list strings.Builder
	folder, width, lines := "", 0, 0
	for _, f := range files {
		text := " `" + filepath.Base(f.name) + "`"
		if dir := filepath.Dir(f.name); dir != folder {
			folder, width = dir, 0
			text = "\n- `" + dir + "`:" + text
		} else if width+len(text) > documentWidth {
			width = 0
			text = "\n " + text
		}
		list.WriteString(text)
		width += len(text)
		lines += f.lines
	}
	text := fmt.Sprintf("%s%s\n\n%d Go files with %d lines:\n%s\n\n%s%s", before, listBegins, len(files), lines, list.String(),
		listEnds, after)
	if err := os.WriteFile(architecture, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
