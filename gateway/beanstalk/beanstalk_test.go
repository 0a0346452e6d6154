package beanstalk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/pulltest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is a connection to a gateway.
type client struct {
	*testing.T
	*net.TCPConn
	in *bufio.Reader
}

// serve starts a gateway, and returns its address.
func serve(t *testing.T) net.Addr {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	return serveOn(t, q, q)
}

// serveOn is serve with a queue that may fail.
func serveOn(t *testing.T, q *pulltest.Queue, jobs Queue) net.Addr {
	return serveAt(t, pulltest.Endpoint(t, "beanstalk"), q, jobs)
}

func serveAt(t *testing.T, e *gateway.Endpoint, q *pulltest.Queue, jobs Queue) net.Addr {
	return serveWith(t, e, q, jobs, q.Hub)
}

func serveWith(t *testing.T, e *gateway.Endpoint, q *pulltest.Queue, jobs Queue, w gateway.Workers) net.Addr {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- New(e, jobs, w, q.Registry, 64, "test").Serve(ctx, l)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr()
}

func dial(t *testing.T, addr net.Addr) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{t, c.(*net.TCPConn), bufio.NewReader(c)}
}

func (c *client) send(text string) {
	c.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.Fatal(err)
	}
}

// want reads the next answer, which must be s.
func (c *client) want(text string) {
	c.Helper()
	got := make([]byte, len(text))
	_ = c.SetReadDeadline(time.Now().Add(wait.Limit))
	if n, err := io.ReadFull(c.in, got); err != nil || string(got) != text {
		c.Fatalf("%q, %v; want %q", got[:n], err, text)
	}
}

// stats returns the members of a YAML answer.
func (c *client) stats(command string) map[string]string {
	c.Helper()
	c.send(command + "\r\n")
	line, err := c.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "OK ") {
		c.Fatalf("%s: %q, %v", command, line, err)
	}
	members := map[string]string{}
	for line != "\r\n" {
		if line, err = c.in.ReadString('\n'); err != nil {
			c.Fatal(err)
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		members[name] = value
	}
	return members
}

// TestTheLargestJobIsASetting, beanstalkd's -z.
func TestTheLargestJobIsASetting(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	size := func(string) string { return "80KiB" }
	all := servers(pulltest.Endpoint(t, "beanstalk"), &gateway.Process{
		Queue: q.Queue, Workers: q.Hub, Registry: q.Registry, Setting: size,
	})
	ctx, stop := context.WithCancel(context.Background())
	serveOn, err := all["gateways.beanstalk.addr"](ctx)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = serveOn(ctx, l) })
	t.Cleanup(func() { stop(); serving.Wait() })
	c := dial(t, l.Addr())
	if s := c.stats("stats"); s["max-job-size"] != "81920" {
		t.Errorf("max-job-size is %s", s["max-job-size"])
	}
	c.send("put 0 0 60 81920\r\n" + strings.Repeat("x", 81920) + "\r\nput 0 0 60 81921\r\n" +
		strings.Repeat("x", 81921) + "\r\n")
	c.want("INSERTED 1\r\nJOB_TOO_BIG\r\n")
}

// lateWorkers are the queue's workers on a busy machine: the wake-up of a job that becomes due comes too late.
type lateWorkers struct{ *pull.Hub }

func (w lateWorkers) Take(ctx context.Context, r pull.Request) ([]store.Job, error) {
	if r.Wait > 0 {
		<-time.After(r.Wait)
		return nil, nil
	}
	return w.Hub.Take(ctx, r)
}

// TestAReserveGetsTheJobThatIsDueWhenItsTimeIsUp, as beanstalkd's does, which lets delayed jobs become ready first.
func TestAReserveGetsTheJobThatIsDueWhenItsTimeIsUp(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveWith(t, pulltest.Endpoint(t, "beanstalk"), q, q, lateWorkers{q.Hub}))
	c.send("put 0 1 60 1\r\nx\r\n")
	c.want("INSERTED 1\r\n")
	c.send("reserve-with-timeout 1\r\nreserve-with-timeout 0\r\n")
	c.want("RESERVED 1 1\r\nx\r\nTIMED_OUT\r\n")
}

// TestWhatClientsRelyOn beyond the description of the protocol.
func TestWhatClientsRelyOn(t *testing.T) {
	addr := serve(t)
	c := dial(t, addr)
	for _, step := range [][2]string{
		{"use " + strings.Repeat("x", 200) + "\r\n", "USING " + strings.Repeat("x", 200) + "\r\n"},
		{"use A-z0+/;.$_()\r\n", "USING A-z0+/;.$_()\r\n"}, {"use \r\n", "BAD_FORMAT\r\n"},
		{"use a b\r\n", "BAD_FORMAT\r\n"}, {"use t\r\n", "USING t\r\n"},
		{"use a\nuse b\r\n", "BAD_FORMAT\r\n"}, {"list-tube-used\r\n", "USING t\r\n"},
		// the body of a malformed put is read as a command
		{"put 0 0 x 4\r\nquux\r\n", "BAD_FORMAT\r\nUNKNOWN_COMMAND\r\n"},
		{"put 0 0 60 65\r\n" + strings.Repeat("x", 65) + "\r\n", "JOB_TOO_BIG\r\n"},
		{"put 4294967295 0 0 2\r\nno\r\n", "INSERTED 1\r\n"}, {"put 9 0 60 0\r\n\r\n", "INSERTED 2\r\n"},
		{"put 9 0 60 1\r\nx\r\n", "INSERTED 3\r\n"}, {"put 0 3600 60 5\r\nlater\r\n", "INSERTED 4\r\n"},
		{"ignore unknown\r\n", "WATCHING 1\r\n"}, {"watch t\r\n", "WATCHING 2\r\n"},
		{"reserve-with-timeout 2147483648\r\n", "BAD_FORMAT\r\n"}, {"reserve x\r\n", "BAD_FORMAT\r\n"},
		// by priority, then by id
		{"reserve\r\n", "RESERVED 2 0\r\n\r\n"}, {"reserve-with-timeout 0\r\n", "RESERVED 3 1\r\nx\r\n"},
		{"release 3 0 0\r\n", "RELEASED\r\n"}, {"release 3 0 0\r\n", "NOT_FOUND\r\n"},
		{"bury 2 7\r\n", "BURIED\r\n"}, {"bury 2 7\r\n", "NOT_FOUND\r\n"}, {"touch 2\r\n", "NOT_FOUND\r\n"},
		{"peek-buried\r\n", "FOUND 2 0\r\n\r\n"}, {"peek-delayed\r\n", "FOUND 4 5\r\nlater\r\n"},
		{"peek-ready\r\n", "FOUND 3 1\r\nx\r\n"}, {"peek 99\r\n", "NOT_FOUND\r\n"},
		// buried jobs come before delayed ones
		{"kick 9\r\n", "KICKED 1\r\n"}, {"kick 9\r\n", "KICKED 1\r\n"}, {"kick 9\r\n", "KICKED 0\r\n"},
		{"kick-job 99\r\n", "NOT_FOUND\r\n"}, {"kick-job 3\r\n", "NOT_FOUND\r\n"},
		{"reserve-job 99\r\n", "NOT_FOUND\r\n"}, {"reserve-job 4\r\n", "RESERVED 4 5\r\nlater\r\n"},
		{"reserve-job 4\r\n", "NOT_FOUND\r\n"}, {"touch 4\r\n", "TOUCHED\r\n"}, {"bury 4 0\r\n", "BURIED\r\n"},
		{"delete 4\r\n", "DELETED\r\n"}, {"delete 4\r\n", "NOT_FOUND\r\n"}, {"delete 3\r\n", "DELETED\r\n"},
		{"pause-tube t -1\r\n", "BAD_FORMAT\r\n"}, {"list-tubes-watched\r\n", "OK 18\r\n---\n- default\n- t\n\r\n"},
	} {
		c.send(step[0])
		c.want(step[1])
	}
	if s := c.stats("stats-job 1"); s["ttr"] != "1" || s["pri"] != "4294967295" || s["time-left"] != "0" ||
		s["state"] != "ready" || s["tube"] != `"t"` {
		t.Errorf("stats-job: %v", s)
	}
	if s := c.stats("stats-tube t"); s["total-jobs"] != "4" || s["cmd-delete"] != "2" || s["current-using"] != "1" ||
		s["current-watching"] != "1" || s["current-jobs-ready"] != "2" {
		t.Errorf("stats-tube: %v", s)
	}
	other := dial(t, addr)
	other.send("watch t\r\npause-tube t 600\r\nreserve\r\n")
	other.want("WATCHING 2\r\nPAUSED\r\n")
	wait.For(t, "the other client waits", func() bool { return c.stats("stats-tube t")["current-waiting"] == "1" })
	c.send("pause-tube t 0\r\n") // wakes waiting clients
	c.want("PAUSED\r\n")
	other.want("RESERVED 2 0\r\n\r\n")
}

// extendsNothing is a queue that cannot extend a lease.
type extendsNothing struct{ Queue }

func (q extendsNothing) End(ctx context.Context, list []store.End) []store.Ended {
	if list[0].Verb == store.Extend {
		return []store.Ended{{Err: &store.UnavailableError{Reason: "down", Err: errors.New("no shard answers")}}}
	}
	return q.Queue.End(ctx, list)
}

// TestATouchThatFailsIsAnsweredOnce: after an additional answer, each later command would get that of the one before.
func TestATouchThatFailsIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, extendsNothing{q}))
	c.send("put 0 0 10 1\r\nx\r\nreserve\r\n")
	c.want("INSERTED 1\r\nRESERVED 1 1\r\nx\r\n")
	c.send("touch 1\r\nlist-tube-used\r\n")
	c.want("INTERNAL_ERROR\r\nUSING default\r\n")
}

// TestResultsAreCounted: the metrics have the commands that were refused or failed.
func TestResultsAreCounted(t *testing.T) {
	t.Parallel()
	q, counted := pulltest.Start(t, Namespace), prometheus.NewRegistry()
	metrics, err := gateway.NewMetrics(counted)
	if err != nil {
		t.Fatal(err)
	}
	e := &gateway.Endpoint{Name: "beanstalk", Log: slog.New(slog.DiscardHandler), Metrics: metrics}
	c := dial(t, serveAt(t, e, q, extendsNothing{q}))
	c.send("put 0 0 10 1\r\nx\r\nreserve\r\ntouch 1\r\nkick x\r\nfoo\r\nput 0 0 10 65\r\n" + strings.Repeat("x", 67))
	c.want("INSERTED 1\r\nRESERVED 1 1\r\nx\r\nINTERNAL_ERROR\r\nBAD_FORMAT\r\nUNKNOWN_COMMAND\r\nJOB_TOO_BIG\r\n")
	c.send("quit\r\n")
	const want = "map[kick refused:1 put done:1 put refused:1 reserve done:1 touch unavailable:1 unknown refused:1]"
	var got string
	defer func() {
		if t.Failed() {
			t.Log("counted: ", got)
		}
	}()
	wait.For(t, "the counts "+want, func() bool {
		got = fmt.Sprint(requests(t, counted))
		return got == want
	})
}

// requests returns the counted requests by command and result.
func requests(t *testing.T, counted prometheus.Gatherer) map[string]float64 {
	families, err := counted.Gather()
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "wakecall_gateway_requests_total" {
			continue
		}
		for _, m := range family.Metric { // labels are in alphabetical order
			requests[m.Label[0].GetValue()+" "+m.Label[2].GetValue()] = m.Counter.GetValue()
		}
	}
	return requests
}

// TestPrioritiesDoNotOrderWhatIsNotReady: delayed jobs are peeked and kicked by due time, buried ones by the time of
// their burial.
func TestPrioritiesDoNotOrderWhatIsNotReady(t *testing.T) {
	c := dial(t, serve(t))
	for _, step := range [][2]string{
		{"put 1 300 60 1\r\na\r\n", "INSERTED 1\r\n"}, {"put 1 200 60 1\r\nb\r\n", "INSERTED 2\r\n"},
		{"put 5 100 60 1\r\nc\r\n", "INSERTED 3\r\n"}, {"peek-delayed\r\n", "FOUND 3 1\r\nc\r\n"},
		{"kick 1\r\n", "KICKED 1\r\n"}, {"peek-ready\r\n", "FOUND 3 1\r\nc\r\n"},
		{"peek-delayed\r\n", "FOUND 2 1\r\nb\r\n"}, {"kick 1\r\n", "KICKED 1\r\n"},
		{"peek-delayed\r\n", "FOUND 1 1\r\na\r\n"}, {"peek-ready\r\n", "FOUND 2 1\r\nb\r\n"},
		{"reserve\r\n", "RESERVED 2 1\r\nb\r\n"}, {"reserve\r\n", "RESERVED 3 1\r\nc\r\n"},
		{"bury 3 5\r\n", "BURIED\r\n"}, {"bury 2 1\r\n", "BURIED\r\n"},
		{"peek-buried\r\n", "FOUND 3 1\r\nc\r\n"}, {"kick 1\r\n", "KICKED 1\r\n"},
		{"peek-buried\r\n", "FOUND 2 1\r\nb\r\n"}, {"peek-ready\r\n", "FOUND 3 1\r\nc\r\n"},
	} {
		time.Sleep(2 * time.Millisecond) // times have a resolution of a millisecond
		c.send(step[0])
		c.want(step[1])
	}
}

// TestAReleaseWithAnotherPriorityKeepsTheCounts, for workers that give up after some releases.
func TestAReleaseWithAnotherPriorityKeepsTheCounts(t *testing.T) {
	c := dial(t, serve(t))
	c.send("put 5 0 60 1\r\nx\r\n")
	c.want("INSERTED 1\r\n")
	for _, priority := range []string{"5", "9", "3"} {
		c.send("reserve\r\nrelease 1 " + priority + " 0\r\n")
		c.want("RESERVED 1 1\r\nx\r\nRELEASED\r\n")
	}
	c.send("reserve\r\n")
	c.want("RESERVED 1 1\r\nx\r\n")
	s := c.stats("stats-job 1")
	if s["reserves"] != "4" || s["releases"] != "3" || s["timeouts"] != "0" || s["pri"] != "3" {
		t.Errorf("stats-job: %v", s)
	}
}

// TestADeleteWithoutALeaseDeletes: the job's lease has ended, so any client may delete it.
func TestADeleteWithoutALeaseDeletes(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, q))
	c.send("put 5 0 60 1\r\nx\r\nreserve\r\n")
	c.want("INSERTED 1\r\nRESERVED 1 1\r\nx\r\n")
	byHand := store.End{Ref: store.Ref{Topic: topicOf("default"), ID: "1"}, Verb: store.Bury}
	if done := q.End(t.Context(), []store.End{byHand})[0]; done.Err != nil {
		t.Fatal(done.Err)
	}
	c.send("delete 1\r\ndelete 1\r\n")
	c.want("DELETED\r\nNOT_FOUND\r\n")
	if s := c.stats("stats-tube default"); s["cmd-delete"] != "1" {
		t.Errorf("stats-tube: cmd-delete %s", s["cmd-delete"])
	}
}

// TestAReleaseWithoutALeaseMakesNoSecondJob, even with another priority.
func TestAReleaseWithoutALeaseMakesNoSecondJob(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, q))
	c.send("put 5 0 60 1\r\nx\r\nreserve\r\n")
	c.want("INSERTED 1\r\nRESERVED 1 1\r\nx\r\n")
	byHand := store.End{Ref: store.Ref{Topic: topicOf("default"), ID: "1"}, Verb: store.Bury}
	if done := q.End(t.Context(), []store.End{byHand})[0]; done.Err != nil {
		t.Fatal(done.Err)
	}
	c.send("release 1 9 0\r\nreserve-with-timeout 0\r\n")
	c.want("NOT_FOUND\r\nTIMED_OUT\r\n")
}

// TestWhatWasSentIsCarriedOut, even if the client has closed its side or disconnected.
func TestWhatWasSentIsCarriedOut(t *testing.T) {
	addr := serve(t)
	const clients = 30
	for range clients {
		c := dial(t, addr)
		c.send("put 0 0 60 1\r\nx\r\nput 0 0 60 1\r\ny\r\n")
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if answers, err := io.ReadAll(c.in); err != nil || strings.Count(string(answers), "INSERTED ") != 2 {
			t.Errorf("%q, %v", answers, err)
		}
	}
	if s := dial(t, addr).stats("stats-tube default"); s["current-jobs-ready"] != "60" {
		t.Errorf("stats-tube: %v", s)
	}
}

// TestAReserveDoesNotWaitForAClosedSide, whatever was sent behind it, but it takes a job that is ready.
func TestAReserveDoesNotWaitForAClosedSide(t *testing.T) {
	addr := serve(t)
	const more = 20
	for n := range 20 {
		c := dial(t, addr)
		c.send(fmt.Sprintf("use t%d\r\nput 0 0 60 1\r\nx\r\nwatch t%d\r\nignore default\r\n", n, n) +
			"reserve-with-timeout 0\r\n" + strings.Repeat("reserve\r\n", more) + "list-tube-used\r\n")
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint(n + 1)
		c.want("USING t" + fmt.Sprint(n) + "\r\nINSERTED " + id + "\r\nWATCHING 2\r\nWATCHING 1\r\n")
		c.want("RESERVED " + id + " 1\r\nx\r\n" + strings.Repeat("TIMED_OUT\r\n", more) +
			"USING t" + fmt.Sprint(n) + "\r\n")
	}
	c := dial(t, addr)
	if s := c.stats("stats"); s["current-waiting"] != "0" {
		t.Errorf("stats: %v", s)
	}
}

// countsReads is a queue that counts concurrent lists of its topics, once all requests have arrived.
type countsReads struct {
	Queue
	asked     chan struct{}
	now, most atomic.Int64
}

func (q *countsReads) Members(ctx context.Context, namespace string) ([]string, error) {
	n := q.now.Add(1)
	defer q.now.Add(-1)
	for most := q.most.Load(); n > most && !q.most.CompareAndSwap(most, n); most = q.most.Load() {
	}
	<-q.asked
	return q.Queue.Members(ctx, namespace)
}

// TestAnOfflineTubeTakesNoJobs: a put is answered as by a server in drain mode, and its jobs can be deleted.
func TestAnOfflineTubeTakesNoJobs(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, q))
	c.send("put 0 0 60 1\r\nx\r\n")
	c.want("INSERTED 1\r\n")
	q.TakeOffline(t, Namespace)
	c.send("put 0 0 60 1\r\nx\r\ndelete 1\r\n")
	c.want("DRAINING\r\nDELETED\r\n")
}

// TestStatisticsAreReadForOneAtATime: there may be thousands of tubes, and of clients that request them.
func TestStatisticsAreReadForOneAtATime(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	jobs := &countsReads{Queue: q, asked: make(chan struct{})}
	addr := serveOn(t, q, jobs)
	var asking sync.WaitGroup
	for range 20 {
		c := dial(t, addr)
		c.send(strings.Repeat("stats\r\nlist-tubes\r\n", 5))
		asking.Go(func() {
			_ = c.CloseWrite()
			if answers, err := io.ReadAll(c.in); err != nil || strings.Count(string(answers), "OK ") != 10 {
				t.Errorf("%q, %v", answers, err)
			}
		})
	}
	close(jobs.asked)
	asking.Wait()
	if most := jobs.most.Load(); most != 1 {
		t.Errorf("%d requests read all tubes at the same time, want 1", most)
	}
}

// TestAJobWhoseTTRIsOverComesAgain for any client, unless it was touched; a release may delay it.
func TestAJobWhoseTTRIsOverComesAgain(t *testing.T) {
	addr := serve(t)
	c, other := dial(t, addr), dial(t, addr)
	c.send("put 0 0 600 1\r\nx\r\nput 0 0 2 1\r\ny\r\nreserve-job 1\r\n")
	c.want("INSERTED 1\r\nINSERTED 2\r\nRESERVED 1 1\r\nx\r\n")
	left := func() int {
		n, _ := strconv.Atoi(c.stats("stats-job 1")["time-left"])
		return n
	}
	before := 600
	wait.For(t, "a second of the ttr is over", func() bool { before = left(); return before < 599 })
	c.send("touch 1\r\n")
	c.want("TOUCHED\r\n")
	if after := left(); after <= before {
		t.Errorf("a touch leaves %d s, before it were %d", after, before)
	}
	c.send("release 1 3 3600\r\nreserve-job 1\r\nrelease 1 3 3600\r\n")
	c.want("RELEASED\r\nRESERVED 1 1\r\nx\r\nRELEASED\r\n")
	if s := c.stats("stats-job 1"); s["state"] != "delayed" || s["pri"] != "3" || s["delay"] != "3600" {
		t.Errorf("after a release with a delay: %v", s)
	}
	c.send("kick-job 1\r\nreserve-job 1\r\n")
	c.want("KICKED\r\nRESERVED 1 1\r\nx\r\n")
	if s := c.stats("stats-job 1"); s["delay"] != "3600" {
		t.Errorf("after a kick, which leaves the delay: %v", s)
	}
	if v := c.stats("stats")["version"]; !strings.HasPrefix(v, `"1.13 `) {
		t.Errorf("version: %s; clients parse a number at its beginning", v)
	}
	c.send("reserve-job 2\r\n")
	c.want("RESERVED 2 1\r\ny\r\n")
	other.send("reserve\r\n")
	other.want("RESERVED 2 1\r\ny\r\n")
	c.send("delete 2\r\n")
	c.want("NOT_FOUND\r\n")
	if s := other.stats("stats-job 2"); s["reserves"] != "2" || s["timeouts"] != "1" {
		t.Errorf("after its ttr: %v", s)
	}
}

// TestReserveJobGivesADelayedJobToNobodyElse, who would get it early. A pause of the tube does not apply.
func TestReserveJobGivesADelayedJobToNobodyElse(t *testing.T) {
	addr := serve(t)
	c, other := dial(t, addr), dial(t, addr)
	other.send("reserve\r\n")
	wait.For(t, "the other client to wait", func() bool { return c.stats("stats")["current-waiting"] == "1" })
	c.send("put 0 600 60 1\r\nx\r\nreserve-job 1\r\nput 0 0 60 1\r\ny\r\n")
	c.want("INSERTED 1\r\nRESERVED 1 1\r\nx\r\nINSERTED 2\r\n")
	other.want("RESERVED 2 1\r\ny\r\n")
	if s := c.stats("stats"); s["current-workers"] != "2" {
		t.Errorf("stats: %s workers", s["current-workers"])
	}
	c.send("delete 1\r\nput 0 600 60 1\r\nz\r\npause-tube default 60\r\nreserve-job 3\r\n")
	c.want("DELETED\r\nINSERTED 3\r\nPAUSED\r\nRESERVED 3 1\r\nz\r\n")
}
