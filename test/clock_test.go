package test

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// clockSource moves the wall clock of a program that gets it from libc, as redis-server does (a Go program does not),
// by the number of seconds in a file.
//
//go:embed testdata/clock.c
var clockSource []byte

// clock is a wall clock that can be set, for the redis-servers that are started with it.
type clock struct {
	t       testing.TB
	library string
	file    string
}

var clockLibrary = sync.OnceValues(func() (string, error) {
	dir, err := process.Root()
	if err != nil {
		return "", err
	}
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return "", err
	}
	_, err = exec.Command("gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl").Output()
	return library, err
})

// newClock returns a clock that shows the correct time.
func newClock(t testing.TB) *clock {
	t.Helper()
	process.Need(t, "gcc", "gcc libc6-dev")
	library, err := clockLibrary()
	if err != nil {
		t.Fatalf("compiling the clock: %v", err)
	}
	c := &clock{t: t, library: library, file: filepath.Join(process.Dir(t, "clock"), "offset")}
	c.Set(0)
	return c
}

// Set sets the clock ahead of this machine's, or behind it, in whole seconds.
func (c *clock) Set(ahead time.Duration) {
	c.t.Helper()
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600) // the file is mapped, so it must not be replaced
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(ahead/time.Second))), 0); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clock) env() []string {
	return []string{"LD_PRELOAD=" + c.library, "TEST_CLOCK_FILE=" + c.file}
}

// TestTheClockOfRedisSteps: due times are compared with Redis's clock alone. The clock goes back an hour: jobs that
// were due then are late but not lost, and new jobs are called on time. It goes forward again: no job is called before
// its due time.
func TestTheClockOfRedisSteps(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	clock := newClock(t)
	r := harness.StartRedis(t, harness.RedisOptions{Env: clock.env()})
	i := start(t, onRedis(r))
	topic := i.topic(t, nil, nil)
	push := func(id, delay string) { i.MustPush(t, topic, M{"id": id, "body": 1, "delay": delay}) }
	called := func(id string) error {
		if len(i.endpoint.CallsOf(topic, id)) == 0 {
			return fmt.Errorf("%s was not called", id)
		}
		return nil
	}
	push("of-the-old-clock", "2s")
	clock.Set(-time.Hour)
	push("of-the-new-clock", "500ms")
	harness.Eventually(t, soon, "a new job to be called", func() error { return called("of-the-new-clock") })
	harness.Stays(t, 2500*time.Millisecond, "the job that is now due in an hour", func() error {
		if called("of-the-old-clock") == nil {
			return fmt.Errorf("it was called")
		}
		return nil
	})
	harness.Eventually(t, soon, "the step to be reported", func() error {
		if log := i.Log(0); !strings.Contains(log, "finding=stepped") && !strings.Contains(log, "finding=clock") {
			return fmt.Errorf("the log has no finding about the clock")
		}
		return nil
	})
	push("in-half-an-hour", "30m")
	push("in-two-hours", "2h")
	clock.Set(0)
	harness.Eventually(t, soon, "the jobs that are due by the new clock to be called", func() error {
		if err := called("of-the-old-clock"); err != nil {
			return err
		}
		return called("in-half-an-hour")
	})
	push("after", "300ms")
	harness.Eventually(t, soon, "a new job to be called", func() error { return called("after") })
	if called("in-two-hours") == nil {
		t.Error("the job that is due in two hours was called")
	}
	if n := len(i.endpoint.Calls(topic)); n != 4 {
		t.Errorf("there were %d calls of 4 jobs", n)
	}
}

// TestRedisAndHostDisagreeOnTheTime: Redis's clock is ten minutes off those of the hosts. Delays are exact, and lost
// jobs are recovered.
func TestRedisAndHostDisagreeOnTheTime(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			clock := newClock(t)
			clock.Set(ahead)
			r := harness.StartRedis(t, harness.RedisOptions{Env: clock.env()})
			opts := onRedis(r)
			opts.Env["WAKECALL_SPOOL"] = "on"
			i := start(t, opts)
			topic := i.topic(t, nil, nil)
			sent := map[string]time.Time{}
			push := func(id string) {
				sent[id] = time.Now()
				if a := i.Push(ctx, topic, M{"id": id, "body": 1, "delay": "2s"}); a.Err != nil || a.Status >= 300 {
					t.Fatalf("push: %s", a)
				}
			}
			push("waits")
			i.endpoint.WaitCalls(t, topic, 1)
			push("lost")
			r.Lose()
			harness.Eventually(t, soon, "a push to be spooled", func() error {
				id := fmt.Sprint("spooled-", len(sent))
				sent[id] = time.Now()
				a := i.Push(ctx, topic, M{"id": id, "body": 1, "delay": "2s"})
				return harness.Equal("status", a.Status, http.StatusAccepted)
			})
			r.Restart()
			var calls []harness.Call
			harness.Eventually(t, soon, "lost and spooled jobs to be called", func() error {
				calls = i.endpoint.Calls(topic)
				seen := ""
				for _, c := range calls {
					seen += c.ID + " "
				}
				if !strings.Contains(seen, "lost") || !strings.Contains(seen, "spooled") {
					return fmt.Errorf("the called jobs are %s", seen)
				}
				return nil
			})
			for _, c := range calls {
				if after := c.At.Sub(sent[c.ID]); after < 2*time.Second {
					t.Errorf("%s was called %s after its push, with a delay of 2s", c.ID, after)
				}
			}
		})
	}
}
