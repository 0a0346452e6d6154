package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// phpAsk sends one request as php-delayqueue's clients do, which read the header first and then the rest with one read.
func phpAsk(c net.Conn, request string) (string, error) {
	_ = c.SetDeadline(time.Now().Add(soon))
	if _, err := fmt.Fprintf(c, "%04d%s", len(request), request); err != nil {
		return "", err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		return "", err
	}
	size, err := strconv.Atoi(string(head))
	if err != nil {
		return "", err
	}
	body := make([]byte, size)
	n, err := c.Read(body)
	return string(body[:n]), err
}

const phpSucceeded = `{"code":1,"msg":"succ","data":[]}`

// phpAdd adds a job over its own connection, as the Java client does.
func phpAdd(addr, request string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	got, err := phpAsk(c, request)
	if err == nil && got != phpSucceeded {
		err = fmt.Errorf("answered %s", got)
	}
	return err
}

func startPHPDQ(t *testing.T) (i *installation, addr string) {
	port := freeport.TCP(t)
	i = start(t, harness.Options{Env: map[string]string{
		"WAKECALL_GATEWAYS_PHPDQ_ADDR": strconv.Itoa(port), "WAKECALL_GATEWAYS_PHPDQ_TIME_ZONE": "Asia/Shanghai",
	}})
	i.WaitRole("gateway", 1)
	return i, fmt.Sprintf("127.0.0.1:%d", port)
}

func TestAnEndpointIsCalledAsByPHPDelayqueue(t *testing.T) {
	t.Parallel()
	i, addr := startPHPDQ(t)
	i.endpoint.Set("/h.php", harness.FirstCalls(3, harness.Text(200, ""), harness.FirstCalls(1,
		harness.Text(200, `{"code":"500"}`), harness.Text(500, `{"code":"200"}`))))
	i.MustPutTopic(t, "order_close", M{
		"callback_url": i.endpoint.URL("/h.php?id=0&key=k"), "method": "GET", "dialect": "phpdq",
		"retry_if": "{res.code}!=200", "delay": "1s", "ttr": "5s", "max_attempts": 12, "retry": []string{"100ms"},
	})
	before := time.Now()
	harness.Eventually(t, soon, "the gateway to know the topic", func() error {
		return phpAdd(addr, `{"cmd":"add","topic":"Order_Close","id":7,"body":{"id":7,"on":true,"in":{"x":1}}}`)
	})
	job := i.MustGet(t, "order_close", "7")
	if job.State != "delayed" {
		t.Errorf("the API shows %+v", job)
	}
	calls := i.endpoint.WaitCalls(t, "order_close", 5) // three jobs at once for the first attempt, then one each
	zone, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	for n, c := range calls[:5] {
		q := c.Query
		set, err := time.ParseInLocation(time.DateTime, q.Get("dq_set_time"), zone)
		if err != nil || set.Before(before.Add(-2*time.Second)) || set.After(time.Now()) {
			t.Errorf("call %d: dq_set_time %q, %v", n, q.Get("dq_set_time"), err)
		}
		attempt := max(0, n-2)
		want := "id=7&key=k&on=1&in=Array"
		if attempt > 0 {
			want += fmt.Sprint("&exp_notify_nums=", attempt)
		}
		if got := c.Attempt; c.Method != http.MethodGet || got != attempt+1 {
			t.Errorf("call %d is %s, attempt %d", n, c.Method, got)
		}
		for pair := range strings.SplitSeq(want, "&") {
			name, value, _ := strings.Cut(pair, "=")
			if q.Get(name) != value {
				t.Errorf("call %d: %s=%q, want %q", n, name, q.Get(name), value)
			}
		}
		if got := c.Header.Get("User-Agent"); got != "Swift framework HttpRequest class" {
			t.Errorf("User-Agent %q", got)
		}
	}
	i.waitGone(t, "order_close", "7")
	if n := len(i.endpoint.Calls("order_close")); n != 5 {
		t.Errorf("it was called %d times, although a status of 500 with an answer is a success", n)
	}
}

func TestTheJournalNamesTheProtocol(t *testing.T) {
	t.Parallel()
	i, addr := startPHPDQ(t)
	i.MustPutTopic(t, "mail", M{"callback_url": i.endpoint.URL("/mail"), "delay": "1h"})
	harness.Eventually(t, soon, "the gateway to know the topic", func() error {
		return phpAdd(addr, `{"cmd":"add","topic":"mail","id":"a","body":{}}`)
	})
	if err := phpAdd(addr, `{"cmd":"del","topic":"mail","id":"a"}`); err != nil {
		t.Error(err)
	}
	i.MustPush(t, "mail", M{"id": "b", "body": 1})
	via := map[string][]string{}
	files, err := filepath.Glob(filepath.Join(i.Data, "journal", "request-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var l struct{ Op, ID, Via string }
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			via[l.ID] = append(via[l.ID], l.Op+" "+l.Via)
		}
	}
	if !slices.Equal(via["a"], []string{"push phpdq", "delete phpdq"}) || !slices.Equal(via["b"], []string{"push "}) {
		t.Errorf("the journal has %q", via)
	}
}

func TestHangupRefusesNoClientOfAGateway(t *testing.T) {
	t.Parallel()
	const counted = `wakecall_gateway_requests_total{command="add"`
	i, addr := startPHPDQ(t)
	i.MustPutTopic(t, "mail", M{"callback_url": i.endpoint.URL("/mail"), "delay": "1h"})
	add := func(id string) error {
		return phpAdd(addr, `{"cmd":"add","topic":"mail","id":"`+id+`","body":{}}`)
	}
	harness.Eventually(t, soon, "the gateway to know the topic", func() error { return add("first") })
	var added atomic.Int64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := add(strconv.Itoa(n)); err != nil {
				t.Errorf("job %d: %v", n, err)
				return
			}
			added.Add(1)
		}
	}()
	more := func() {
		t.Helper()
		was := added.Load()
		harness.Eventually(t, soon, "more jobs to be added", func() error {
			if added.Load() < was+20 {
				return fmt.Errorf("%d so far", added.Load()-was)
			}
			return nil
		})
	}
	for range 3 {
		more()
		old := i.Children()
		i.Signal(syscall.SIGHUP)
		i.WaitRole("gateway", 1, old...)
	}
	metrics := i.Metrics()
	harness.Eventually(t, soon, "the successor to serve clients and count them", func() error {
		if text := metrics.Do(t.Context(), "GET", "/metrics", nil).String(); !strings.Contains(text, counted) {
			return fmt.Errorf("%s is missing", counted)
		}
		return nil
	})
	close(stop)
	<-ended
	want := int(added.Load()) + 1
	if got := i.MustStats(t, "mail").Delayed; got != want {
		t.Errorf("%d jobs are waiting, want %d", got, want)
	}
	if code, out := i.Run("ps"); code != 0 || !strings.Contains(out, "phpdq") {
		t.Errorf("ps shows no gateway: %s", out)
	}
}

func TestAGatewayIsTurnedOnAndOffByAReload(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{File: "timers: 1\n"})
	if len(i.Role("gateway")) != 0 {
		t.Error("a gateway without an address is running")
	}
	port := freeport.TCP(t)
	i.WriteFile(fmt.Sprintf("gateways:\n  phpdq:\n    addr: %d\n", port))
	i.Signal(syscall.SIGHUP)
	i.WaitRole("gateway", 1)
	topic := i.topic(t, nil, M{"delay": "1h"})
	harness.Eventually(t, soon, "the gateway to answer", func() error {
		return phpAdd(fmt.Sprintf("127.0.0.1:%d", port), `{"cmd":"add","topic":"`+topic+`","id":"1","body":{}}`)
	})
	i.WriteFile("timers: 1\n")
	i.Signal(syscall.SIGHUP)
	i.WaitRole("gateway", 0)
}
