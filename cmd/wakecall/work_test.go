package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/wait"
)

// TestExitStatus0AcksAJob, even if the command has started a process that keeps standard error open.
func TestExitStatus0AcksAJob(t *testing.T) {
	shortenOutputWait(t)
	if err := runCommand(t.Context(), io.Discard, workFlags{exec: "sleep 5 & echo $! >&2"}, &client.LeasedJob{}); err != nil {
		t.Error(err)
	}
	err := runCommand(t.Context(), io.Discard, workFlags{exec: "sleep 5 & exit 3"}, &client.LeasedJob{})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("exit status 3 is %v", err)
	}
}

// TestACommandThatEndsItsJobWhileItIsStoppedHasDoneIt: otherwise the job would be done twice.
func TestACommandThatEndsItsJobWhileItIsStoppedHasDoneIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "begun")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		const finish = `trap "exit 0" TERM; touch "$0"; while :; do sleep 0.05; done`
		ended <- runCommand(ctx, io.Discard, workFlags{exec: `exec sh -c '` + finish + `' ` + file}, &client.LeasedJob{})
	}()
	wait.For(t, "the command", func() bool { _, err := os.Stat(file); return err == nil })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("a command that exited with status 0 has failed: %v", err)
	}
}

// TestACommandWhoseLeaseExpiredIsKilled with all processes that it started, even those that ignore SIGTERM: another
// worker has the job.
func TestACommandWhoseLeaseExpiredIsKilled(t *testing.T) {
	shortenOutputWait(t)
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- runCommand(ctx, io.Discard, workFlags{exec: `trap "" TERM; sleep 60 & echo $! > ` + file + `.new && mv ` + file +
			`.new ` + file + `; wait; sleep 60`}, &client.LeasedJob{})
	}()
	var pid int
	wait.For(t, "the command", func() bool {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	cancel()
	if err := <-ended; err == nil {
		t.Error("a killed command has succeeded")
	}
	wait.For(t, "the end of the command's processes", func() bool {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ") || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

func shortenOutputWait(t *testing.T) {
	was := outputWait
	outputWait = 100 * time.Millisecond
	t.Cleanup(func() { outputWait = was })
}

// TestTheVariablesOfAJobAreNoConfiguration: a command may call wakecall itself.
func TestTheVariablesOfAJobAreNoConfiguration(t *testing.T) {
	job := client.LeasedJob{Topic: "mail", ID: "42", Attempt: 1, MaxAttempts: 10, Priority: "high",
		ContentType: "text/plain"}
	env := jobEnv(&job)
	if got := wakecall(t, env, "", "config"); got.code != 0 {
		t.Errorf("code %d: %s", got.code, got.err)
	}
	got := wakecall(t, []string{"WAKECALL_PRIORITY=high"}, "", "config")
	if got.code != exitUsage || !strings.Contains(got.err, "WAKECALL_PRIORITIES") {
		t.Errorf("without a job, WAKECALL_PRIORITY is a mistyped key: code %d: %s", got.code, got.err)
	}
	help := wakecall(t, nil, "", "work", "--help").out
	for _, variable := range env {
		if name, _, _ := strings.Cut(variable, "="); !strings.Contains(help, name) {
			t.Errorf("the help does not name %s", name)
		}
	}
}

// TestASecondSignalEndsTheCommandsOfWork: otherwise they would keep running while other workers have their jobs.
func TestASecondSignalEndsTheCommandsOfWork(t *testing.T) {
	shortenOutputWait(t)
	started, released := filepath.Join(t.TempDir(), "started"), make(chan struct{})
	var once sync.Once
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/reserve"):
			_, _ = io.WriteString(w, `{"jobs":[{"lease":"l","topic":"mail","id":"1","ttr":60,"body":1}]}`)
		case strings.HasSuffix(r.URL.Path, "/release"):
			once.Do(func() { close(released) })
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer srv.Close()
	s := watchSignals()
	defer s.stop()
	p := &program{in: strings.NewReader(""), out: io.Discard, err: io.Discard, now: time.Now, signals: s,
		env: []string{"WAKECALL_URL=" + srv.URL, "WAKECALL_TOKEN=x"}}
	ctx := s.context(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- p.execute(ctx, []string{"work", "mail", "--exec", "touch " + started + "; sleep 60"}) }()
	wait.For(t, "the command", func() bool {
		_, err := os.Stat(started)
		return err == nil
	})
	s.terminate <- syscall.SIGINT
	<-ctx.Done()
	s.terminate <- syscall.SIGINT
	<-released
	if code := <-ended; code != exitFailed {
		t.Errorf("code %d", code)
	}
}
