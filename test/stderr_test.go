package test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// fullPipe returns the path of a pipe that nobody reads, and that has no space left.
func fullPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close() })
	fd := int(pipe.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := syscall.Write(fd, []byte("x")); err != nil {
			return path
		}
	}
}

// TestNothingWaitsForTheReaderOfStderr, such as a log driver that is blocked: the processes start, jobs are called
// after Redis was away, and SIGTERM stops the master.
func TestNothingWaitsForTheReaderOfStderr(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	for _, level := range []string{"info", "debug"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			script := filepath.Join(t.TempDir(), "wakecall")
			text := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" 2>%s\n", harness.Binary(t), fullPipe(t))
			if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			i := start(t, harness.Options{Binary: script, Env: map[string]string{"WAKECALL_LOG_LEVEL": level}})
			topic := i.topic(t, nil, nil)
			resume := process.Pause(t, i.Role("redis")...)
			harness.Eventually(t, soon, "a push to be refused", func() error {
				return harness.Equal("status", i.Push(ctx, topic, M{"body": 1}).Status, 503)
			})
			resume()
			for n := range 20 {
				harness.Eventually(t, soon, "a push to be accepted", func() error {
					answer := i.Push(ctx, topic, M{"id": fmt.Sprint(n), "body": n, "delay": "1s"})
					return harness.Equal("accepted", answer.Status/100, 2)
				})
			}
			i.endpoint.WaitCalls(t, topic, 20)
			i.Signal(syscall.SIGTERM)
			if code := i.WaitExit(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
