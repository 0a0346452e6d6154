package master

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAProcessThatHangsIsStartedAgain: a suspended process answers nothing and would never end.
func TestAProcessThatHangsIsStartedAgain(t *testing.T) {
	dir := tempDir(t)
	o := Options{DataDir: dir, ShutdownTimeout: time.Second, AnswerWithin: 100 * time.Millisecond,
		Roles: []RoleSpec{{Name: "timer", Count: 1}}}
	inProcess(t, o)
	pid := psUntil(t, dir, "the process runs", runs(1))[0].Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p := psUntil(t, dir, "another process runs", func(list []Process) bool {
		return runs(1)(list) && list[0].Pid != pid
	})[0]
	if p.Restarts < 1 || !strings.Contains(p.LastExit, "unanswered") {
		t.Errorf("after the process hung: %+v", p)
	}
	if alive(pid) {
		t.Error("the process that hangs still exists")
	}
}
