package journal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	childDir  = "WAKECALL_TEST_JOURNAL_DIR"   // makes the test binary a writer that never ends
	childDisk = "WAKECALL_TEST_JOURNAL_TMPFS" // makes TestFullDisk mount its small disk
)

// writeUntilKilled prints the number of each written batch.
func writeUntilKilled(dir string) {
	j, err := Open(Options{Dir: dir, Logger: quiet()})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for n := 0; ; n++ {
		lines := requests(idOf(n, 0), idOf(n, 1), idOf(n, 2))
		for i := range lines {
			lines[i].Body = []byte(strings.Repeat("é\n", 5000))
		}
		if err := j.Requests(lines); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

func idOf(batch, i int) string { return fmt.Sprintf("%d-%d-%d", os.Getpid(), batch, i) }

func TestKilledWriters(t *testing.T) {
	dir := t.TempDir()
	written := map[string]bool{}
	for range 6 { // one after the other, so that each finds the state that the last one left
		first, second := startWriter(t, dir), startWriter(t, dir)
		for _, w := range []*writer{first, second} {
			w.collect(t, 20, written)
		}
	}
	found, torn := ids(t, dir, Range{})
	for _, id := range found {
		delete(written, id)
	}
	if len(written) > 0 || len(found) == 0 {
		t.Errorf("%d lines of %d are lost (%d torn)", len(written), len(found), torn)
	}
}

type writer struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func startWriter(t *testing.T, dir string) *writer {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &writer{cmd: cmd, out: bufio.NewScanner(out)}
}

// collect waits for some batches, kills the writer and records every id that it reported as written.
func (w *writer) collect(t *testing.T, batches int, written map[string]bool) {
	t.Helper()
	for count := 0; w.out.Scan(); count++ {
		n, err := strconv.Atoi(w.out.Text())
		if err != nil {
			t.Error(w.out.Text())
		}
		for i := range 3 {
			written[fmt.Sprintf("%d-%d-%d", w.cmd.Process.Pid, n, i)] = true
		}
		if count == batches {
			if err := w.cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = w.cmd.Wait() // killed
}

// TestFullDisk runs itself again in its own mount namespace, where it may mount a small disk without being root.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(childDisk); dir != "" {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
			fmt.Println("SKIP", err)
			return
		}
		fullDisk(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), childDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if _, ran := err.(*exec.ExitError); err != nil && !ran {
		t.Skipf("no user and mount namespaces: %v", err)
	}
	if _, reason, ok := strings.Cut(string(out), "SKIP "); ok {
		t.Skipf("mounting is not permitted: %s", reason)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func fullDisk(t *testing.T, dir string) {
	c := &clock{t: noon}
	first, second := open(t, dir, c), open(t, dir, c)
	push(t, first, "start")
	fill(t, dir)
	wanted := map[string]bool{"start": true}
	shorts := 0
	for round := range 50 {
		for name, j := range map[string]*Journal{"first": first, "second": second} {
			before := fileSize(t, dir)
			batch := requests(fmt.Sprintf("%s-%d-a", name, round), fmt.Sprintf("%s-%d-b", name, round))
			batch[0].Body = []byte(strings.Repeat("x", 3000))
			if err := j.Requests(batch); err == nil {
				wanted[batch[0].ID], wanted[batch[1].ID] = true, true
			} else if fileSize(t, dir) > before {
				shorts++
			}
		}
	}
	ends := []string{}
	for n := range 2000 {
		ends = append(ends, fmt.Sprint(n))
		_ = first.Attempts([]AttemptLine{{Topic: "t", ID: ends[n], Error: strings.Repeat("x", 100), Outcome: Done}})
	}
	if first.Healthy() == nil || second.Healthy() == nil || shorts == 0 {
		t.Fatalf("the disk is not full (%d short writes)", shorts)
	}
	if first.Probe() == nil {
		t.Error("the probe succeeds on a full disk")
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	push(t, second, "after") // without a restart
	wanted["after"] = true
	c.add(time.Second)
	if err := first.Probe(); err != nil {
		t.Errorf("the probe fails: %v", err)
	}
	if got := attemptIDs(t, dir); !slices.Equal(got, ends) {
		t.Errorf("%d of %d attempts are in the journal", len(got), len(ends))
	}
	push(t, first, "probed")
	wanted["probed"] = true
	found, torn := ids(t, dir, Range{})
	for _, id := range found {
		delete(wanted, id)
	}
	if len(wanted) > 0 {
		t.Errorf("lost: %v (%d torn)", wanted, torn)
	}
	for _, n := range names(t, dir) {
		if strings.HasPrefix(n, ".tmp") {
			t.Errorf("%s is left", n)
		}
	}
}

// fill leaves space for a few batches.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(info.Size() - 5*4096); err != nil {
		t.Fatal(err)
	}
}

func fileSize(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, fileName(Requests, noon)))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
