package test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// gatewayKeys are the environment variables of the gateways' addresses, by protocol.
var gatewayKeys = map[string]string{
	"lmstfy": "LMSTFY_ADDR", "lmstfy-admin": "LMSTFY_ADMIN_ADDR", "phpdq": "PHPDQ_ADDR",
	"delayqueue": "DELAYQUEUE_ADDR",
	"grape":      "GRAPE_ADDR", "grape-web": "GRAPE_WEB_ADDR", "beanstalk": "BEANSTALK_ADDR",
}

// startGateways starts an installation with all gateways, and returns their addresses.
func startGateways(t *testing.T, env map[string]string) (w *harness.Wakecall, addrs map[string]string) {
	t.Helper()
	needProcesses(t)
	addrs = map[string]string{}
	accounts := filepath.Join(t.TempDir(), "accounts")
	if err := os.WriteFile(accounts, []byte("ops:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"WAKECALL_GATEWAYS_GRAPE_ACCOUNTS": accounts}
	for name, key := range gatewayKeys {
		addrs[name] = fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
		all["WAKECALL_GATEWAYS_"+key] = addrs[name]
	}
	maps.Copy(all, env)
	w = harness.StartWakecall(t, harness.Options{Env: all})
	for _, addr := range addrs {
		waitListening(t, addr)
	}
	return w, addrs
}

// sendTo sends a text and returns the beginning of the answer.
func sendTo(t *testing.T, addr, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, text) // the gateway may close the connection before the end
	_ = c.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(io.LimitReader(c, 64<<10))
	return string(answer)
}

// Invalid requests to a gateway get an answer or a closed connection; other clients are served meanwhile and
// afterwards.
func TestGatewaysSurviveHostileInput(t *testing.T) {
	t.Parallel()
	_, addrs := startGateways(t, nil)
	post := func(path string, length int, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
	}
	put := func(path string, length int, body string) string {
		return strings.Replace(post(path, length, body), "POST", "PUT", 1)
	}
	binary := "\x00\xff\xfe\x16\x03\x01" + strings.Repeat("\x00\x80", 600) + "\r\n"
	for name, inputs := range map[string]map[string]string{ // input → expected part of the answer; "": anything
		"lmstfy": {
			binary: "400 Bad Request", "GET /api/a/b HTT": "", put("/api/a/b", 100, "half"): "",
			put("/api/a/b", -1, ""): "400", put("/api/a/"+strings.Repeat("b", 256), 0, ""): "too long",
			"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n": "431",
		},
		"lmstfy-admin": {binary: "400 Bad Request", post("/token/a", 100, "half"): "", "GET /pools": ""},
		"delayqueue": {
			binary: "400 Bad Request", post("/push", 100, `{"topic":`): "失败",
			post("/push", 4, "\xff\xfe{}"): "解析json失败",
			post("/pop", 1<<40, "{}"):      "失败", post("/push", 5, strings.Repeat("[", 5)): "解析json失败",
		},
		"grape": {
			binary: "400 Bad Request", post("/api/job/produce?tube=t&jid=1&ttr=%00", 0, ""): "2003",
			"GET /api/tube/list":                           "",
			post("/api/job/produce?tube=%ff&jid=1", 0, ""): "1002",
		},
		"grape-web": {binary: "400 Bad Request", post("/api/authen/login", 4, "\xff\xfe{}"): "3000",
			"GET /api/tube/list": ""},
		"phpdq": {binary: "", "00": "", "-001{}": "", "9999{": "", "0002[]": "", "abcd{}": "", "0005{\"a\":": ""},
		"beanstalk": {
			binary: "BAD_FORMAT", "put 1 0 1 99999999999\r\n": "BAD_FORMAT", "put 1 0 1 5\r\nab": "",
			"put 1 0 1 2\r\nabcd\r\nlist-tube-used\r\n":  "USING default",
			strings.Repeat("x", 10_000) + "\r\nquit\r\n": "BAD_FORMAT", "reserve-with-timeout -1\r\n": "BAD_FORMAT",
			"put 1 0 1 70000\r\n" + strings.Repeat("x", 70000) + "\r\n": "JOB_TOO_BIG", "\r\n\r\n": "UNKNOWN_COMMAND",
			"delete 18446744073709551616\r\n": "BAD_FORMAT",
		},
	} {
		for input, want := range inputs {
			if got := sendTo(t, addrs[name], input); !strings.Contains(got, want) {
				t.Errorf("%s: %.60q is answered with %.200q, want %q", name, input, got, want)
			}
		}
	}
	gatewaysServe(t, addrs)
}

const login = "POST /api/authen/login HTTP/1.1\r\nHost: x\r\nContent-Length: 38\r\nConnection: close\r\n\r\n" +
	`{"username":"ops","password":"secret"}`

const phpGet = `{"cmd":"get","topic":"none","id":1}`

// gatewaysServe checks that each gateway answers a request of its protocol.
func gatewaysServe(t *testing.T, addrs map[string]string) {
	t.Helper()
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" }
	for name, request := range map[string][2]string{
		"lmstfy": {get("/api/a/b/size"), `"size":0`}, "lmstfy-admin": {strings.Replace(get("/pools"), "Host: x", "Host: localhost", 1), "default"},
		"delayqueue": {"POST /get HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nConnection: close\r\n\r\n{\"id\":\"1\"}",
			"操作成功"},
		"grape": {get("/api/tube/list"), "[]"}, "grape-web": {login, "Set-Cookie: grape.session="},
		"beanstalk": {"list-tube-used\r\n", "USING default"},
		"phpdq":     {fmt.Sprintf("%04d%s", len(phpGet), phpGet), `"code":0`},
	} {
		if err := answersWith(addrs[name], request[0], request[1]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// answersWith checks that the answer to a request contains a text.
func answersWith(addr, request, want string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	var got []byte
	for part := make([]byte, 4096); !strings.Contains(string(got), want); {
		n, err := c.Read(part)
		if got = append(got, part[:n]...); err != nil {
			return fmt.Errorf("answered %q, want %q: %w", got, want, err)
		}
	}
	return nil
}

// Thousands of silent connections, and some that never read, block no gateway for others, and cost no more than a few
// KiB of memory each.
func TestIdleConnectionsKeepNobodyOutOfAGateway(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 12_000 {
		t.Skip("SKIPPED: needs 12,000 open files (ulimit -n)")
	}
	w, addrs := startGateways(t, map[string]string{"WAKECALL_GATEWAYS_MAX_CONNECTIONS": "1500"})
	w.WaitRole("gateway", 1)
	i := &installation{Wakecall: w}
	before := i.memory(t, "gateway")
	for name, addr := range addrs {
		for n := range 10_000 / len(addrs) {
			c, err := net.DialTimeout("tcp", addr, time.Minute)
			if err != nil {
				t.Fatalf("%s: connection %d: %v", name, n, err)
			}
			t.Cleanup(func() { _ = c.Close() })
			switch n % 100 {
			case 0:
				_, _ = io.WriteString(c, "half a requ")
			case 1: // many requests, whose answers are not read
				_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
				_, _ = io.WriteString(c, strings.Repeat("GET /api/tube/list HTTP/1.1\r\nHost: x\r\n\r\n", 100))
			}
		}
	}
	gatewaysServe(t, addrs)
	if grown := i.memory(t, "gateway") - before; grown > 400<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
}

var connected = regexp.MustCompile(`wakecall_gateway_connections\{[^}]*protocol="delayqueue"[^}]*\} [1-9]`)

// A stopping gateway answers waiting clients at once, with the protocol's own answer for an empty queue.
func TestAStopEndsLongPollsOfGateways(t *testing.T) {
	t.Parallel()
	accounts := filepath.Join(t.TempDir(), "accounts")
	if err := os.WriteFile(accounts, []byte("ops:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, addrs := startGateways(t, map[string]string{
		"WAKECALL_GATEWAYS_LMSTFY_ACCOUNTS": accounts, "WAKECALL_GATEWAYS_LMSTFY_POOLS": "default,big",
		"WAKECALL_SHUTDOWN_TIMEOUT": "2m",
	})
	l := &lmstfy{t: t, w: w, api: addrs["lmstfy"], admin: addrs["lmstfy-admin"]}
	l.ask(l.admin, "POST", "/token/shop?description=d&pool=big", "", nil).must(t, http.StatusUnauthorized)
	basic := map[string]string{"Authorization": "Basic b3BzOnNlY3JldA=="}
	made := l.ask(l.admin, "POST", "/token/shop?description=d&pool=big", "", basic).must(t, 201)
	l.token = made.value["token"].(string)
	if !strings.HasPrefix(l.token, "big:") {
		t.Errorf("the token of the pool big is %s", l.token)
	}
	until(t, "the gateway knows the token", func() bool { return l.do("GET", "q", "").status == 404 })
	id := l.publish("q", "", "x")
	if job := l.consume("q", ""); job["job_id"] != id {
		t.Errorf("the pool big has %v", job)
	}
	if n := w.MustStats(t, "lmstfy-big.shop.q").Running; n != 1 {
		t.Errorf("its topic has %d running jobs, want 1", n)
	}
	waiting := make(chan string, 2)
	go func() { waiting <- l.do("GET", "q?timeout=600", "").text }()
	go func() { waiting <- delayQueue{t, addrs["delayqueue"]}.post("/pop", `{"topic":"none"}`) }()
	until(t, "both clients are connected", func() bool {
		text := w.Metrics().Do(ctx, "GET", "/metrics", nil).String()
		return connected.MatchString(text)
	})
	began := time.Now()
	w.Signal(syscall.SIGTERM)
	for range 2 {
		switch text := <-waiting; text {
		case `{"msg":"no job available"}`, delayQueueOK:
		default:
			t.Errorf("a waiting request was answered %s", text)
		}
	}
	if took := time.Since(began); took > busy {
		t.Errorf("they were answered %s after the stop", took)
	}
}

// The client library of PHP, which Laravel's queues use, too.
func TestPheanstalk(t *testing.T) {
	t.Parallel()
	php, err := exec.LookPath("php")
	if _, missing := os.Stat("/usr/share/php/Pheanstalk/Pheanstalk.php"); err != nil || missing != nil {
		t.Skip("SKIPPED: php or pheanstalk is not installed (apt-get install php-cli php-pda-pheanstalk)")
	}
	_, addr := startGateway(t, "BEANSTALK")
	host, port, _ := net.SplitHostPort(addr)
	out, err := exec.Command(php, "testdata/pheanstalk.php", host, port).CombinedOutput()
	if err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
