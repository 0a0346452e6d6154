package test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// receiver is a program of docs/guides/receiving.md.
type receiver struct {
	language, command, file string
	compile, run            []string // {addr} is where it listens
}

var receivers = []receiver{
	{"go", "go", "endpoint.go", nil, []string{"./endpoint"}},
	{"python", "python3", "endpoint.py", nil, []string{"python3", "endpoint.py"}},
	{"php", "php", "endpoint.php", nil, []string{"php", "-S", "{addr}", "endpoint.php"}},
	{"js", "node", "endpoint.mjs", nil, []string{"node", "endpoint.mjs"}},
	{
		"java", "javac", "Endpoint.java", []string{"javac", "--release", "11", "-encoding", "UTF-8", "Endpoint.java"},
		[]string{"java", "-Xshare:auto", "-cp", ".", "Endpoint"},
	},
}

// TestReceiving runs each program of the page: it refuses what it cannot verify, and works once for a job that is
// called twice, also when it was restarted in between.
func TestReceiving(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	page, err := os.ReadFile("../docs/guides/receiving.md")
	must(t, err)
	for _, r := range receivers {
		t.Run(r.language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(r.command); err != nil {
				t.Skipf("SKIPPED: %s is not installed (make need-all installs it)", r.command)
			}
			blocks := fences(string(page), r.language)
			if len(blocks) != 1 {
				t.Fatalf("the page has %d programs", len(blocks))
			}
			e := newReceiving(t, r, blocks[0])
			e.refuses(t)
			e.worksOnce(t, i)
		})
	}
}

const (
	receivingSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret     = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

type receiving struct {
	receiver
	dir, addr string
	process   *process.Process
	sent      chan recorded // by Wakecall
}

// recorded is a callback.
type recorded struct {
	header http.Header
	body   []byte
}

func newReceiving(t *testing.T, r receiver, program string) *receiving {
	t.Helper()
	port := fmt.Sprint(freeport.TCP(t))
	e := &receiving{
		receiver: r, dir: process.Dir(t, "receiving-"+r.language), addr: "127.0.0.1:" + port,
		sent: make(chan recorded, 9),
	}
	file := filepath.Join(e.dir, r.file)
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(program, "8080", port)), 0o600))
	if r.language == "go" { // built from here, so that the driver is that of this module
		out, err := exec.Command("go", "build", "-o", e.dir+"/endpoint", file).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if r.compile != nil {
		cmd := exec.Command(r.compile[0], r.compile[1:]...)
		cmd.Dir = e.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	e.start(t)
	return e
}

func (e *receiving) start(t *testing.T) {
	t.Helper()
	var args []string
	for _, arg := range e.run {
		args = append(args, strings.ReplaceAll(arg, "{addr}", e.addr))
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = e.dir, append(os.Environ(), "WAKECALL_SECRET=,"+otherSecret+","+receivingSecret)
	e.process = process.Start(t, e.dir, e.language, cmd)
	harness.Eventually(t, soon, "it answers", func() error {
		resp, err := http.Post("http://"+e.addr+"/", "application/json", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		return harness.Equal("the status of an unsigned call", resp.StatusCode, http.StatusUnauthorized)
	})
}

// call makes a call as it was recorded.
func (e *receiving) call(t *testing.T, r recorded) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+e.addr+"/", bytes.NewReader(r.body))
	must(t, err)
	req.Header = r.header.Clone()
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func signedBy(secret, id, stamp string, body []byte) recorded {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", stamp)
	h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return recorded{h, body}
}

// refuses: wrong signatures, old timestamps, and signatures with an empty key.
func (e *receiving) refuses(t *testing.T) {
	t.Helper()
	at := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
	body := []byte(`{"order":1}`)
	forged := signedBy(receivingSecret, "msg_1", at(0), body)
	forged.body = []byte(`{"order":2}`)
	renamed := signedBy(receivingSecret, "msg_1", at(0), body)
	renamed.header.Set("webhook-id", "msg_2")
	for what, r := range map[string]recorded{
		"unsigned": {http.Header{}, body}, "another secret": signedBy("whsec_AAAA", "msg_1", at(0), body),
		"an empty secret": signedBy("", "msg_1", at(0), body), "another body": forged, "another id": renamed,
		"an old timestamp":   signedBy(receivingSecret, "msg_1", at(-6*time.Minute), body),
		"an early timestamp": signedBy(receivingSecret, "msg_1", at(6*time.Minute), body),
		"no timestamp":       signedBy(receivingSecret, "msg_1", "", body),
		"a strange one":      signedBy(receivingSecret, "msg_1", "1e9", body),
		"a negative one":     signedBy(receivingSecret, "msg_1", "-1", body),
	} {
		if status := e.call(t, r); status != http.StatusUnauthorized {
			t.Errorf("%s: answered %d, want 401", what, status)
		}
	}
	if log := e.process.Log(0); strings.Contains(log, "closed ") {
		t.Errorf("it printed\n%s", log)
	}
}

// worksOnce: Wakecall loses the endpoint's first answer, so it calls again.
func (e *receiving) worksOnce(t *testing.T, i *installation) {
	t.Helper()
	var mu sync.Mutex
	lost := map[string]bool{}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status := e.call(t, recorded{r.Header, body})
		mu.Lock()
		first := !lost[r.Header.Get("Wakecall-Id")]
		lost[r.Header.Get("Wakecall-Id")] = true
		mu.Unlock()
		if first && status == http.StatusNoContent {
			status = http.StatusServiceUnavailable
		}
		e.sent <- recorded{r.Header, body}
		w.WriteHeader(status)
	}))
	t.Cleanup(proxy.Close)
	topic := "receiving." + e.language
	i.MustPutTopic(t, topic, M{"callback_url": proxy.URL, "retry": []string{"100ms"},
		"secrets": []string{receivingSecret}})
	i.MustPush(t, topic, M{"id": "order é", "body": M{"order": 42, "note": "é\n]"}})
	harness.Eventually(t, soon, "the job is done", func() error {
		job := i.MustGet(t, topic, "order é")
		return harness.Equal("state and attempts", fmt.Sprint(job.State, job.Attempts), "done2")
	})
	first, second := <-e.sent, <-e.sent
	if first.header.Get("webhook-id") != second.header.Get("webhook-id") {
		t.Error("the attempts have different ids")
	}
	closed := func(want int) {
		t.Helper()
		if log := e.process.Log(0); strings.Count(log, `closed {"note"`) != want {
			t.Errorf("it has not closed %d orders:\n%s", want, log)
		}
	}
	closed(1)
	e.process.Signal(syscall.SIGKILL)
	e.process.WaitExit()
	e.start(t)
	if status := e.call(t, second); status != http.StatusNoContent {
		t.Errorf("the call again: %d", status)
	}
	closed(1)

	// While the secret is replaced, both sign.
	i.MustPutTopic(t, topic, M{"callback_url": proxy.URL, "retry": []string{"100ms"}, "secrets": []string{
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24)), receivingSecret,
	}})
	i.MustPush(t, topic, M{"id": "order 43", "body": M{"order": 43, "note": ""}})
	harness.Eventually(t, soon, "the job is done", func() error {
		return harness.Equal("its state", i.MustGet(t, topic, "order 43").State, "done")
	})
	closed(2)
}
