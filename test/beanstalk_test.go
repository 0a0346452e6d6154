package test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	beanstalk "github.com/beanstalkd/go-beanstalk"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/freeport"
)

// waitListening waits until an address accepts connections.
func waitListening(t *testing.T, addr string) {
	t.Helper()
	until(t, addr+" accepts connections", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func dialBeanstalk(t *testing.T, addr string) *beanstalk.Conn {
	t.Helper()
	c, err := beanstalk.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestBeanstalkClient(t *testing.T) {
	t.Parallel()
	_, addr := startGateway(t, "BEANSTALK")
	c := dialBeanstalk(t, addr)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(body string, pri uint32, delay time.Duration) uint64 {
		t.Helper()
		id, err := c.Put([]byte(body), pri, delay, time.Minute)
		must(err)
		return id
	}
	if first, second := put("low", 2000, 0), put("high", 5, 0); second != first+1 {
		t.Errorf("the ids are %d and %d, want one after the other", first, second)
	}
	put("higher", 4, 0)
	reserve := func(want string) uint64 {
		t.Helper()
		id, body, err := c.Reserve(10 * time.Second)
		must(err)
		if string(body) != want {
			t.Fatalf("reserved %q, want %q", body, want)
		}
		return id
	}
	id := reserve("higher")
	must(c.Delete(id))
	id = reserve("high")
	must(c.Release(id, 3000, 0))
	must(c.Delete(reserve("low")))
	id = reserve("high")
	must(c.Touch(id))
	must(c.Bury(id, 3000))
	if _, err := c.Peek(id); err != nil {
		t.Error(err)
	}
	if got, body, err := c.PeekBuried(); err != nil || got != id || string(body) != "high" {
		t.Errorf("peek-buried: %d %q %v", got, body, err)
	}
	stats, err := c.StatsJob(id)
	must(err)
	if stats["state"] != "buried" || stats["pri"] != "3000" || stats["buries"] != "1" {
		t.Errorf("stats-job: %v", stats)
	}
	if n, err := c.Kick(10); n != 1 || err != nil {
		t.Errorf("kicked %d, %v", n, err)
	}
	must(c.Delete(reserve("high")))
	if _, _, err := c.Reserve(0); !errors.Is(err, beanstalk.ErrTimeout) {
		t.Errorf("of an empty tube: %v", err)
	}
	delayed := put("delayed", 0, time.Hour)
	if _, body, err := c.PeekDelayed(); err != nil || string(body) != "delayed" {
		t.Errorf("peek-delayed: %q %v", body, err)
	}
	must(c.KickJob(delayed))
	if body, err := c.ReserveJob(delayed); err != nil || string(body) != "delayed" {
		t.Errorf("reserve-job: %q %v", body, err)
	}
	must(c.Delete(delayed))
	if all, err := c.Stats(); err != nil || all["total-jobs"] != "4" || all["max-job-size"] != "65535" {
		t.Errorf("stats: %v %v", all, err)
	}
}

// TestBuriedJobsAreListedAndRedriven through the API and the admin, by namespace and by tube.
func TestBuriedJobsAreListedAndRedriven(t *testing.T) {
	t.Parallel()
	const orders = "beanstalk.orders"
	w, addr := startGateway(t, "BEANSTALK")
	c := dialBeanstalk(t, addr)
	for _, tube := range []string{"mails", "orders"} {
		if _, err := (&beanstalk.Tube{Conn: c, Name: tube}).Put([]byte("x"), 1, 0, time.Minute); err != nil {
			t.Fatal(err)
		}
		id, _, err := beanstalk.NewTubeSet(c, tube).Reserve(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Bury(id, 1); err != nil {
			t.Fatal(err)
		}
	}
	api, err := client.New(client.Options{URL: w.Base, Token: w.Token})
	if err != nil {
		t.Fatal(err)
	}
	topics := func() (names []string) {
		t.Helper()
		for cursor := ""; ; {
			page, err := api.List(t.Context(), "beanstalk.*",
				client.ListOptions{State: client.Dead, Limit: 1, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Jobs {
				names = append(names, page.Jobs[i].Topic)
			}
			if cursor = page.Next; cursor == "" {
				return names
			}
		}
	}
	if got := topics(); !slices.Equal(got, []string{"beanstalk.mails", orders}) {
		t.Fatalf("the API lists dead jobs of %q", got)
	}
	browser := signIn(t, w)
	for _, topic := range []string{"", "beanstalk.*", orders} {
		until(t, fmt.Sprintf("the dead jobs of %q are shown", topic), func() bool {
			res, err := browser.Get(w.AdminURL() + "/dead?topic=" + url.QueryEscape(topic))
			if err != nil {
				return false
			}
			defer func() { _ = res.Body.Close() }()
			page, _ := io.ReadAll(res.Body)
			return strings.Contains(string(page), orders+"/")
		})
	}
	if n, err := api.RetryDead(t.Context(), "beanstalk.*", client.Selection{Limit: 5}); n != 2 || err != nil {
		t.Fatalf("re-drove %d, %v", n, err)
	}
	if got := topics(); got != nil {
		t.Errorf("dead jobs of %q are left", got)
	}
}

func TestBeanstalkConnectionsOwnTheirJobs(t *testing.T) {
	t.Parallel()
	_, addr := startGateway(t, "BEANSTALK")
	producer, worker, other := dialBeanstalk(t, addr), dialBeanstalk(t, addr), dialBeanstalk(t, addr)
	tube := beanstalk.NewTube(producer, "a+b")
	got := make(chan uint64, 1)
	go func() {
		id, _, err := beanstalk.NewTubeSet(worker, "a+b", "c").Reserve(30 * time.Second)
		if err != nil {
			t.Error(err)
		}
		got <- id
	}()
	until(t, "the worker is waiting", func() bool {
		stats, err := tube.Stats()
		return err == nil && stats["current-waiting"] == "1"
	})
	id, err := tube.Put([]byte("x"), 1, 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if reserved := <-got; reserved != id {
		t.Fatalf("reserved %d, want %d", reserved, id)
	}
	for name, err := range map[string]error{
		"delete": other.Delete(id), "touch": other.Touch(id), "bury": other.Bury(id, 1),
		"release": other.Release(id, 1, 0),
	} {
		if !errors.Is(err, beanstalk.ErrNotFound) {
			t.Errorf("%s by another connection: %v", name, err)
		}
	}
	_ = worker.Close()
	if again, _, err := beanstalk.NewTubeSet(other, "a+b").Reserve(5 * time.Second); err != nil || again != id {
		t.Errorf("after its connection ended: %d %v", again, err)
	}
}

func TestBeanstalkDeadlineSoonAndPause(t *testing.T) {
	t.Parallel()
	_, addr := startGateway(t, "BEANSTALK")
	c := dialBeanstalk(t, addr)
	if _, err := c.Put([]byte("x"), 1, 0, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Reserve(0); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, _, err := c.Reserve(time.Minute); !errors.Is(err, beanstalk.ErrDeadline) {
		t.Errorf("%v, want DEADLINE_SOON", err)
	}
	if took := time.Since(began); took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("DEADLINE_SOON after %s, want about 1 s", took)
	}
	tube := beanstalk.NewTube(c, "paused")
	if _, err := tube.Put([]byte("y"), 1, 0, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := tube.Pause(2 * time.Second); err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	other := dialBeanstalk(t, addr)
	if _, _, err := beanstalk.NewTubeSet(other, "paused").Reserve(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(paused); took < 1900*time.Millisecond {
		t.Errorf("reserved %s after the pause of 2 s began", took)
	}
}

func TestBeanstalkByteByByte(t *testing.T) {
	t.Parallel()
	_, addr := startGateway(t, "BEANSTALK")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	for _, step := range [][2]string{
		{"use\r\n", "BAD_FORMAT"},
		{"use " + strings.Repeat("x", 201) + "\r\n", "BAD_FORMAT"},
		{"use -x\r\n", "BAD_FORMAT"},
		{"nonsense\r\n", "UNKNOWN_COMMAND"},
		{strings.Repeat("y", 5000) + "\r\n", "BAD_FORMAT"},
		{"use a\x00b\r\n", "BAD_FORMAT"},
		{"put 0 0 0 -1\r\n", "BAD_FORMAT"},
		{"put 4294967296 0 0 1\r\n", "BAD_FORMAT"},
		{"put 0 0 60 3\r\nabcd\r\n", "EXPECTED_CRLF"},
		{"put 0 0 60 70000\r\n" + strings.Repeat("z", 70000) + "\r\n", "JOB_TOO_BIG"},
		{"put 0 0 60 2\r\n\r\n\r\nlist-tube-used\r\n", "INSERTED 1"},
		{"", "USING default"},
		{"watch a\r\nwatch a\r\n", "WATCHING 2"},
		{"", "WATCHING 2"},
		{"ignore default\r\n", "WATCHING 1"},
		{"ignore a\r\n", "NOT_IGNORED"},
		{"reserve-with-timeout -1\r\n", "BAD_FORMAT"},
		{"reserve-with-timeout 0\r\n", "TIMED_OUT"},
		{"delete 99\r\n", "NOT_FOUND"},
		{"delete 18446744073709551616\r\n", "BAD_FORMAT"},
		{"peek 1\r\n", "FOUND 1 2"},
		{"", ""},
		{"", ""},
		{"pause-tube none 1\r\n", "NOT_FOUND"},
		{"stats-tube none\r\n", "NOT_FOUND"},
		{"kick 5\r\n", "KICKED 0"},
	} {
		if _, err := c.Write([]byte(step[0])); err != nil {
			t.Fatal(err)
		}
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("after %.30q: %v", step[0], err)
		}
		if got := strings.TrimSuffix(line, "\r\n"); got != step[1] {
			t.Fatalf("%.30q: %q, want %q", step[0], got, step[1])
		}
	}
	fmt.Fprint(c, "quit\r\n")
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after quit: %v", err)
	}
}

func TestBeanstalkLists(t *testing.T) {
	t.Parallel()
	w, addr := startGateway(t, "BEANSTALK")
	c := dialBeanstalk(t, addr)
	tube := beanstalk.NewTube(c, "emails")
	id, err := tube.Put([]byte("x"), 7, 0, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got, body, err := tube.PeekReady(); err != nil || got != id || string(body) != "x" {
		t.Errorf("peek-ready: %d %q %v", got, body, err)
	}
	if tubes, err := c.ListTubes(); err != nil || !slices.Contains(tubes, "emails") || tubes[0] != "default" {
		t.Errorf("list-tubes: %v %v", tubes, err)
	}
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	fmt.Fprint(raw, "watch emails\r\nlist-tubes-watched\r\nreserve\r\n")
	want := "WATCHING 2\r\nOK 23\r\n---\n- default\n- emails\n\r\nRESERVED " + fmt.Sprint(id) + " 1\r\nx\r\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(raw, got); err != nil || string(got) != want {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	// The job survives the gateway, and is released when its connection ends.
	w.KillRole("gateway")
	waitListening(t, addr)
	again := dialBeanstalk(t, addr)
	if got, _, err := beanstalk.NewTubeSet(again, "emails").Reserve(90 * time.Second); err != nil || got != id {
		t.Errorf("after the gateway was killed: %d %v", got, err)
	}
}

// startBeanstalkd starts Debian's beanstalkd on a port; stop kills it.
func startBeanstalkd(t *testing.T, port int) (addr string, stop func()) {
	t.Helper()
	needProcesses(t)
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("SKIPPED: beanstalkd is not installed (apt-get install beanstalkd)")
	}
	cmd := exec.Command(path, "-l", "127.0.0.1", "-p", strconv.Itoa(port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	t.Cleanup(stop)
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	waitListening(t, addr)
	return addr, stop
}

// A beanstalkd that was restarted without its jobs reuses their ids for other jobs. The imported jobs stay.
func TestARestartedBeanstalkdLosesNoJob(t *testing.T) {
	t.Parallel()
	port, i := freeport.TCP(t), startImporting(t)
	for n := range 2 {
		addr, stop := startBeanstalkd(t, port)
		if _, err := dialBeanstalk(t, addr).Put([]byte(strconv.Itoa(n)), 100, time.Hour, time.Minute); err != nil {
			t.Fatal(err)
		}
		if code, out := i.Run("import", "beanstalk", "--addr", addr); code != 0 {
			t.Fatalf("exit %d: %s", code, out)
		}
		stop()
	}
	if stats := i.MustStats(t, "beanstalk.default"); stats.Delayed != 2 {
		t.Errorf("%d of two jobs are here", stats.Delayed)
	}
}

func oldBeanstalkd(t *testing.T) *oldSystem {
	addr, _ := startBeanstalkd(t, freeport.TCP(t))
	producer, consumer := dialBeanstalk(t, addr), dialBeanstalk(t, addr)
	return &oldSystem{
		args: []string{"--addr", addr}, topic: "beanstalk.default",
		number: func(_, body string) string { return body },
		fill: func(jobs int) {
			for n := range jobs {
				if _, err := producer.Put([]byte(strconv.Itoa(n)), 100, time.Duration(n%2)*time.Hour,
					time.Minute); err != nil {
					t.Fatal(err)
				}
			}
		},
		consume: func() string {
			id, body, err := consumer.Reserve(0)
			if err != nil {
				return ""
			}
			if err := consumer.Delete(id); err != nil {
				t.Errorf("delete of a reserved job: %v", err)
			}
			return string(body)
		},
		left: func() int64 {
			stats, err := producer.Stats()
			if err != nil {
				return -1
			}
			ready, _ := strconv.ParseInt(stats["current-jobs-ready"], 10, 64)
			delayed, _ := strconv.ParseInt(stats["current-jobs-delayed"], 10, 64)
			return ready + delayed
		},
	}
}

func movingBeanstalkd(t *testing.T, done *consumed) (*installation, *moving) {
	old := oldBeanstalkd(t)
	w, addr := startGateway(t, "BEANSTALK")
	producer, gateway := dialBeanstalk(t, old.args[1]), dialBeanstalk(t, addr)
	return movingPull(w, old, done, func(id string) {
		_, err := producer.Put([]byte(id), 100, 0, time.Minute)
		must(t, err)
	}, func(id string) error {
		_, err := gateway.Put([]byte(id), 100, 0, time.Minute)
		return err
	})
}

// TestImportedJobsKeepTheirIDs although the gateway was used before the import, as in the migration guide.
func TestImportedJobsKeepTheirIDs(t *testing.T) {
	t.Parallel()
	old := oldBeanstalkd(t)
	w, addr := startGateway(t, "BEANSTALK")
	c := dialBeanstalk(t, addr)
	old.fill(4)
	if code, out := w.Run(append([]string{"import", "beanstalk"}, old.args...)...); code != 0 {
		t.Fatalf("the import exits %d: %s", code, out)
	}
	for id := range uint64(4) { // beanstalkd counts from 1
		if body, err := c.Peek(id + 1); err != nil || string(body) != fmt.Sprint(id) {
			t.Errorf("peek %d: %q %v", id+1, body, err)
		}
	}
	own, err := c.Put([]byte("own"), 100, time.Hour, time.Minute) // behind the imported ones
	must(t, err)
	if body, err := c.Peek(own); err != nil || string(body) != "own" {
		t.Errorf("peek %d: %q %v", own, body, err)
	}
}
