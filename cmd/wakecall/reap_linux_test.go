package main

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wakecall/wakecall/test/wait"
)

// TestInheritedProcessesAreReaped, and those that this program waits for keep their exit status.
func TestInheritedProcessesAreReaped(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil { // inherits as process 1 does
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	var pids []int
	for range 3 {
		out, err := exec.Command("sh", "-c", "sleep 0.2 > /dev/null & echo $!").Output()
		pid, _ := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil || pid == 0 {
			t.Fatal(pid, err)
		}
		pids = append(pids, pid)
	}
	has := func(pid int) bool { return slices.Contains(zombies(), pid) }
	wait.For(t, "the zombies", func() bool { return has(pids[0]) && has(pids[1]) && has(pids[2]) })
	stop := reap(100 * time.Millisecond)
	wait.For(t, "their end", func() bool { return !slices.ContainsFunc(pids, has) })
	if err := exec.Command("sh", "-c", "exit 3").Run(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("a command's end is %v", err)
	}
	stop()
}
