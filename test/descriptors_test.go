package test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// TestADispatcherWithoutDescriptors counts no attempts: the endpoint cannot be blamed for its host's shortage. It logs
// the shortage, and calls the jobs when it is over.
func TestADispatcherWithoutDescriptors(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_DISPATCHERS": "1"}})
	ledger := harness.NewLedger()
	topic := i.topic(t, harness.Status(200, "Connection", "close"), M{"retry": []string{"100ms"}, "max_attempts": 2})
	ledger.MustPush(t, i.API, topic, "first", nil)
	i.endpoint.WaitCalls(t, topic, 1)
	pid := i.Role("dispatcher")[0]
	restore := limitFiles(t, pid, 3) // it keeps what is open, and gets no more
	for n := range 20 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(n), nil)
	}
	harness.Eventually(t, soon, "the shortage in the log", func() error {
		if !strings.Contains(i.Log(1<<20), "cannot make callbacks") {
			return errors.New("it is not there")
		}
		return nil
	})
	restore()
	harness.Eventually(t, soon, "all calls", func() error { return ledger.AllCalled(i.endpoint) })
	for _, c := range i.endpoint.Calls(topic) {
		if c.Attempt != 1 {
			t.Errorf("job %s was called as attempt %d", c.ID, c.Attempt)
		}
	}
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

// waitForFiles waits until a process has opened no more files for two seconds, and returns how many it has.
func waitForFiles(t *testing.T, pid int) (files int) {
	t.Helper()
	since := time.Now()
	harness.Eventually(t, soon, "the process to have opened its files", func() error {
		open, err := process.Files(pid)
		if err == nil && open != files {
			files, since = open, time.Now()
		}
		if time.Since(since) < 2*time.Second {
			return errors.Join(err, errors.New("it is still opening files"))
		}
		return err
	})
	return files
}

// limitFiles sets the limit of a process's descriptors until restore is called.
func limitFiles(t *testing.T, pid, most int) (restore func()) {
	t.Helper()
	end, err := process.LimitFiles(pid, most)
	must(t, err)
	return func() { must(t, end()) }
}

// TestAServerWithoutDescriptors waits until clients disconnect: it does not end, does not spin, and its existing
// connections keep working.
func TestAServerWithoutDescriptors(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	api := i.Quick()
	ledger := harness.NewLedger()
	ledger.MustPush(t, api, topic, "first", nil) // its connection stays open
	pid := i.Role("server")[0]
	limitFiles(t, pid, waitForFiles(t, pid)+4)
	var clients []io.Closer
	for range 200 {
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(i.Base, "http://"), time.Second)
		if err != nil {
			break // the listening queue is full
		}
		clients = append(clients, c)
	}
	before, err := process.CPU(pid)
	must(t, err)
	began := time.Now()
	pushes := 0
	tick := time.NewTicker(50 * time.Millisecond) // the measurement needs a server that has little to do
	defer tick.Stop()
	for time.Since(began) < 2*time.Second {
		ledger.MustPush(t, api, topic, fmt.Sprint(pushes), nil)
		pushes++
		<-tick.C
	}
	after, err := process.CPU(pid)
	must(t, err)
	if share := float64(after-before) / float64(time.Since(began)); share > 0.3 {
		t.Errorf("the server used %.0f%% of a CPU while it could accept no connection", 100*share)
	}
	for _, c := range clients {
		_ = c.Close()
	}
	harness.Eventually(t, soon, "new clients to be served", func() error {
		return i.API.WithoutKeepAlive().Do(ctx, http.MethodGet, "/healthz", nil).Err
	})
	if i.Role("server")[0] != pid {
		t.Error("the server has ended")
	}
	ledger.Verdict(t, api, i.endpoint, 0)
}
