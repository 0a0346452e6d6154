package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/wakecall/wakecall/test/leaks"

	"github.com/wakecall/wakecall/test/wait"
)

// The test binary is also the children.
func TestMain(m *testing.M) {
	if Is() {
		os.Exit(Main(map[string]Role{"server": serve, "failing": fail, "stuck": stuck}))
	}
	leaks.Main(m)
}

// serve answers each connection with its role, number and configuration. Its last line on stdout says why it ended.
func serve(ctx context.Context, c *Child) error {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "test_gauge"}, func() float64 { return 7 }))
	c.SetGatherer(metrics)
	c.SetStatus(func() map[string]any { return map[string]any{"number": c.Number} })
	for _, l := range c.Listeners {
		context.AfterFunc(ctx, func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(conn, "%s %d %s", c.Role, c.Number, c.Config)
				_ = conn.Close()
			}
		}()
	}
	c.Version = "v9"
	c.Ready()
	<-ctx.Done()
	fmt.Printf("orphaned %t, replaced %t\n", c.Orphaned(), c.Replaced())
	return nil
}

func fail(context.Context, *Child) error { return errors.New("no such table") }

// stuck ignores that it must end.
func stuck(ctx context.Context, c *Child) error {
	c.Ready()
	<-ctx.Done()
	c.Ready()
	select {}
}

// master is the other end of a child.
type master struct {
	t       *testing.T
	cmd     *exec.Cmd
	conn    net.Conn
	replies *json.Decoder
	out     bytes.Buffer
	exit    func() int
}

// start starts a child and sends its first message.
func start(t *testing.T, first any, sockets ...*os.File) *master {
	t.Helper()
	return startWith(t, nil, first, sockets...)
}

// startWith is start with a file for the child's output.
func startWith(t *testing.T, log *os.File, first any, sockets ...*os.File) *master {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	m := &master{t: t}
	if m.conn, err = net.FileConn(ours); err != nil {
		t.Fatal(err)
	}
	m.replies = json.NewDecoder(m.conn)
	m.run(log, append([]*os.File{theirs}, sockets...))
	m.send(first)
	return m
}

func (m *master) run(log *os.File, files []*os.File) {
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), Env+"=1")
	m.cmd.Stdout, m.cmd.Stderr = &m.out, &m.out
	if log != nil {
		m.cmd.Stdout, m.cmd.Stderr = log, log
	}
	m.cmd.ExtraFiles = files
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.exit = sync.OnceValue(func() int {
		_ = m.cmd.Wait()
		return m.cmd.ProcessState.ExitCode()
	})
	m.t.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		m.exit()
		if m.conn != nil {
			_ = m.conn.Close()
		}
	})
}

func boot(role string, timeout time.Duration) Message {
	return Message{Boot: &Boot{
		Role: role, Number: 2, Config: json.RawMessage(`"config"`), ShutdownTimeoutMS: timeout.Milliseconds(),
	}}
}

func (m *master) send(message any) {
	m.t.Helper()
	if err := json.NewEncoder(m.conn).Encode(message); err != nil {
		m.t.Fatal(err)
	}
}

func (m *master) reply() (r Reply) {
	m.t.Helper()
	_ = m.conn.SetReadDeadline(time.Now().Add(time.Minute))
	if err := m.replies.Decode(&r); err != nil {
		m.t.Fatalf("no reply: %v; %s", err, m.out.String())
	}
	return r
}

func (m *master) waitReady() {
	m.t.Helper()
	if !m.reply().Ready {
		m.t.Fatal("the child is not ready")
	}
}

func (m *master) signal(s syscall.Signal) { _ = m.cmd.Process.Signal(s) }

// ended checks how the child ended.
func (m *master) ended(code int, output string) {
	m.t.Helper()
	if got := m.exit(); got != code || !strings.Contains(m.out.String(), output) {
		m.t.Errorf("exit code %d, want %d with %q; it wrote %s", got, code, output, m.out.String())
	}
}

func TestARoleGetsItsNumberConfigurationAndSockets(t *testing.T) {
	var files []*os.File
	var addrs []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = f.Close(), l.Close() }()
		files, addrs = append(files, f), append(addrs, l.Addr().String())
	}
	message := boot("server", time.Second)
	message.Boot.Listeners = []string{"http", "admin"}
	m := start(t, message, files...)
	if r := m.reply(); !r.Ready || r.Version != "v9" {
		t.Errorf("got %+v", r)
	}
	for _, addr := range addrs {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if b, err := io.ReadAll(conn); string(b) != `server 2 "config"` {
			t.Errorf("%s answered %q, %v", addr, b, err)
		}
	}
}

func TestTheMasterAsksForMetricsAndStatus(t *testing.T) {
	m := start(t, boot("server", time.Second))
	m.waitReady()
	m.send(Message{ID: 7, Ask: AskMetrics})
	r := m.reply()
	var f dto.MetricFamily
	families := expfmt.NewDecoder(bytes.NewReader(r.Metrics), expfmt.NewFormat(expfmt.TypeProtoDelim))
	if err := families.Decode(&f); err != nil || r.ID != 7 || f.GetName() != "test_gauge" ||
		f.Metric[0].Gauge.GetValue() != 7 {
		t.Errorf("metrics: %+v, %v, %v", r, &f, err)
	}
	m.send(Message{ID: 8, Ask: AskStatus})
	if r := m.reply(); r.ID != 8 || string(r.Status) != `{"number":2}` {
		t.Errorf("status: %+v", r)
	}
	m.send(Message{ID: 9, Ask: "what a newer master asks"})
	m.send(Message{ID: 10, Ask: AskStatus})
	if r := m.reply(); r.ID != 10 {
		t.Errorf("after an unknown request: %+v", r)
	}
}

func TestAnOrphanStopsWithinTwoSeconds(t *testing.T) {
	m := start(t, boot("server", time.Minute))
	m.waitReady()
	began := time.Now()
	_ = m.conn.Close()
	m.ended(0, "orphaned true, replaced false")
	if took := time.Since(began); took > 22*time.Second { // 2 s, and the delay of a busy machine
		t.Errorf("it took %s", took)
	}
}

func TestAReplacedChildStops(t *testing.T) {
	m := start(t, boot("server", time.Minute))
	m.waitReady()
	m.send(Message{Replaced: true})
	m.ended(0, "orphaned false, replaced true")
}

func TestSignalsStopGracefully(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR2} {
		m := start(t, boot("server", time.Minute))
		m.waitReady()
		m.signal(syscall.SIGHUP) // from a terminal that closes: ignored
		m.signal(s)
		m.ended(0, "orphaned false, replaced false")
	}
}

// TestAChildOutlivesTheReaderOfItsLog, such as a tee that was ended.
func TestAChildOutlivesTheReaderOfItsLog(t *testing.T) {
	reader, log, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	m := startWith(t, log, boot("server", time.Minute))
	m.waitReady()
	_ = reader.Close()
	m.signal(syscall.SIGTERM) // it writes why it ends
	m.ended(0, "")
}

// TestSignalsToAllProcessesStopGracefully: the child gets one signal from the sender, and one from its master.
func TestSignalsToAllProcessesStopGracefully(t *testing.T) {
	m := start(t, boot("stuck", 100*time.Millisecond))
	m.waitReady()
	m.signal(syscall.SIGTERM)
	m.waitReady() // it has received the stop
	m.signal(syscall.SIGTERM)
	m.ended(1, "wakecall: stuck 2: did not stop within 100ms")
}

func TestASecondSignalToAnOrphanStopsAtOnce(t *testing.T) {
	m := start(t, boot("stuck", time.Hour))
	m.waitReady()
	_ = m.conn.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.exit()
	}()
	wait.For(t, "the orphan to end", func() bool {
		m.signal(syscall.SIGUSR2)
		m.signal(syscall.SIGTERM)
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	m.ended(1, "wakecall: stuck 2: stopped at once by a second signal")
}

func TestARoleThatDoesNotEndIsGivenUp(t *testing.T) {
	m := start(t, boot("stuck", 100*time.Millisecond))
	m.waitReady()
	m.signal(syscall.SIGTERM)
	m.ended(1, "wakecall: stuck 2: did not stop within 100ms")
}

func TestFailuresOfTheStartAreNamed(t *testing.T) {
	for _, c := range []struct {
		first any
		want  string
	}{
		{boot("failing", time.Second), "wakecall: failing 2: no such table"},
		{boot("of tomorrow", time.Second), `this binary has no role "of tomorrow"`},
		{Message{Ask: AskStatus}, "the master's first message is not a boot message"},
		{"nonsense", "read the master's boot message"},
	} {
		start(t, c.first).ended(1, c.want)
	}
	message := boot("server", time.Second)
	message.Boot.Listeners = []string{"http"}
	start(t, message).ended(1, "inherit socket http")
}

func TestAChildWithoutAMaster(t *testing.T) {
	m := &master{t: t}
	m.run(nil, nil)
	m.ended(1, "wakecall: child: not started by a master")
}

// The master may have another version than its children.
// TestAMasterThatStandsStillGetsWholeAnswers: part of an answer would make all later ones unreadable.
func TestAMasterThatStandsStillGetsWholeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := &Child{conn: near}
		go func() {
			c.Ready()
			_ = near.Close()
		}()
		time.Sleep(time.Hour) // of the bubble
		var r Reply
		if err := json.NewDecoder(far).Decode(&r); err != nil || !r.Ready {
			t.Errorf("after an hour: %+v, %v", r, err)
		}
	})
}

// TestSlowMetricsDelayNoOtherAnswer, and requests that arrive while they are gathered share them.
func TestSlowMetricsDelayNoOtherAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := &Child{conn: near, in: json.NewDecoder(near)}
		slow, gathered := make(chan struct{}), 0
		c.SetGatherer(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			gathered++
			<-slow
			return nil, nil
		}))
		c.SetStatus(func() map[string]any { return nil })
		var wg sync.WaitGroup
		wg.Go(func() { c.listen(func() {}) })
		m := master{t: t, conn: far, replies: json.NewDecoder(far)}
		for id, what := range []string{AskMetrics, AskMetrics, AskStatus} {
			m.send(Message{ID: int64(id) + 1, Ask: what})
			synctest.Wait()
		}
		if r := m.reply(); r.ID != 3 {
			t.Errorf("the first answer is %d", r.ID)
		}
		close(slow)
		if first, second := m.reply(), m.reply(); first.ID+second.ID != 3 || gathered != 1 {
			t.Errorf("answers %d and %d, gathered %d times", first.ID, second.ID, gathered)
		}
		_, _ = far.Close(), near.Close()
		wg.Wait()
	})
}

func TestMessagesOfAnotherVersionAreRead(t *testing.T) {
	var m Message
	if err := json.Unmarshal(
		[]byte(`{"boot":{"role":"timer","number":1,"of_tomorrow":true},"more":1}`), &m); err != nil {
		t.Fatal(err)
	}
	if m.Boot == nil || m.Boot.Role != "timer" || !slices.Equal(m.Boot.Listeners, nil) {
		t.Errorf("got %+v", m.Boot)
	}
}
