package phpdq_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/listen"
	"github.com/wakecall/wakecall/internal/store"
)

const (
	succ = `{"code":1,"msg":"succ","data":[]}`
	fail = `{"code":0,"msg":"fail","data":[]}`
)

func TestAddGetDel(t *testing.T) {
	r := start(t, listen.Options{})
	c := r.dial(t)
	c.ask(`{"cmd":"add","topic":"order_close","id":"o 1","body":{"a":1,"b":"\u00e4\/"}}`, succ)
	if p := r.last; p.Delay != 30*time.Minute || p.Priority != store.High ||
		string(p.Body) != `{"a":1,"b":"\u00e4\/"}` ||
		p.OnDuplicate != store.Replace {
		t.Errorf("pushed %+v, body %s", p, p.Body)
	}
	stamped := `"notify_time":"2026-01-02 11:34:05","dq_set_time":"2026-01-02 11:04:05"`
	c.ask(`{"cmd":"get","topic":"order_close","id":"o 1"}`,
		`{"code":1,"msg":"succ","data":{"a":1,"b":"\u00e4\/",`+stamped+`}}`)
	c.ask(`{"cmd":"add","topic":"ORDER_Close","id":"o 1","body":{"a":2}}`, succ)
	c.ask(`{"cmd":"get","topic":"order_close","id":"o 1"}`, `{"code":1,"msg":"succ","data":{"a":2,`+stamped+`}}`)
	c.ask(`{"cmd":"del","topic":"order_close","id":"o 1"}`, succ)
	c.ask(`{"cmd":"del","topic":"order_close","id":"o 1"}`, fail)
	c.ask(`{"cmd":"get","topic":"order_close","id":"o 1"}`, fail)
}

// TestATopicThatWasJustRegisteredIsKnown before this process would read the registry again.
func TestATopicThatWasJustRegisteredIsKnown(t *testing.T) {
	r := start(t, listen.Options{})
	r.dial(t).ask(`{"cmd":"add","topic":"fresh","id":"1","body":{}}`, succ)
}

// The Java client decodes an answer in chunks, in the character set of its machine, so answers are ASCII, as PHP's are.
func TestAnswersAreASCIIAsThoseOfPHP(t *testing.T) {
	r := start(t, listen.Options{})
	c := r.dial(t)
	stamped := `"notify_time":"2026-01-02 11:34:05","dq_set_time":"2026-01-02 11:04:05"`
	long := strings.Repeat("延", 2000) // escaped, the bytes would be six times as many, too many for a frame
	for body, want := range map[string]string{
		"{\"延\":\"迟é\U0001F600/\"}": `{"\u5ef6":"\u8fdf\u00e9\ud83d\ude00/",`,
		`{"a":"` + long + `"}`:      `{"a":"` + long + `",`,
	} {
		c.ask(`{"cmd":"add","topic":"order_close","id":"1","body":`+body+`}`, succ)
		c.ask(`{"cmd":"get","topic":"order_close","id":"1"}`, `{"code":1,"msg":"succ","data":`+want+stamped+`}}`)
	}
}

func TestWhatCannotBeAddedFails(t *testing.T) {
	r := start(t, listen.Options{})
	c := r.dial(t)
	for _, request := range []string{
		`{"cmd":"add","topic":"unknown","id":"1","body":{}}`, `{"cmd":"add","topic":"old","id":"1","body":{}}`,
		`{"cmd":"add","id":"1","body":{}}`, `{"cmd":"add","topic":["order_close"],"id":"1"}`,
		`{"cmd":"add","topic":"order_close","body":{}}`,
		`{"cmd":"add","topic":"order_close","id":"","body":{}}`,
		`{"cmd":"add","topic":"order_close","id":" x","body":{}}`,
		`{"cmd":"add","topic":"order_close","id":"a\nb","body":{}}`,
		`{"cmd":"add","topic":"order_close","id":{},"body":{}}`,
		`{"cmd":"add","topic":"order_close","id":"` + strings.Repeat("x", 129) + `","body":{}}`,
		`{"cmd":"add","topic":"order_close","id":"1","fix_time":"soon","body":{}}`,
		`{"cmd":"get"}`, `{"cmd":"del"}`, `{"cmd":"get","topic":"","id":""}`,
	} {
		c.ask(request, fail)
	}
	if len(r.jobs) > 0 {
		t.Errorf("stored %+v", r.jobs)
	}
	r.down = errors.New("no shard")
	c.ask(`{"cmd":"add","topic":"order_close","id":"1","body":{}}`, fail)
	r.down, r.healthy = nil, errors.New("the disk is full")
	c.ask(`{"cmd":"add","topic":"order_close","id":"1","body":{}}`, fail)
	if families, err := r.metrics.Gather(); err != nil || len(families) != 3 {
		t.Errorf("the metrics are %v, %v; want requests, durations and connections", families, err)
	}
}

func TestBodiesAsTheClientsSendThem(t *testing.T) {
	r := start(t, listen.Options{})
	c := r.dial(t)
	for body, want := range map[string]string{
		`"{\"orderId\":7}"`: `{"orderId":7}`, // the Java client
		`"plain"`:           `"plain"`, `"{broken"`: `"{broken"`, `[1,2]`: `[1,2]`, `null`: `{}`, `{}`: `{}`, `7`: `7`,
	} {
		c.ask(`{"cmd":"add","topic":"order_close","id":42,"body":`+body+`}`, succ)
		if got := string(r.last.Body); got != want || r.last.ID != "42" {
			t.Errorf("%s was stored as %s under %q", body, got, r.last.ID)
		}
	}
	c.ask(`{"cmd":"add","topic":"order_close","id":42}`, succ)
	if got := string(r.last.Body); got != "{}" {
		t.Errorf("no body was stored as %s", got)
	}
}

func TestFixTimeIsInTheTimeZone(t *testing.T) {
	r := start(t, listen.Options{})
	c := r.dial(t)
	for text, want := range map[string]string{
		"2026-03-04 05:06:07": "2026-03-03T21:06:07Z", "2026-03-04": "2026-03-03T16:00:00Z",
		"2026/03/04 05:06": "2026-03-03T21:06:00Z", "@1767323045": "2026-01-02T03:04:05Z",
		"2026-03-04T05:06:07Z": "2026-03-04T05:06:07Z",
	} {
		c.ask(`{"cmd":"add","topic":"order_close","id":"1","body":{},"fix_time":"`+text+`"}`, succ)
		if got := r.last.DueAt.UTC().Format(time.RFC3339); got != want || r.last.Delay != 0 {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	for text, d := range map[string]time.Duration{"+90 seconds": 90 * time.Second, "+1 day": 24 * time.Hour,
		"2 hours": 2 * time.Hour} {
		before := time.Now()
		c.ask(`{"cmd":"add","topic":"order_close","id":"1","body":{},"fix_time":"`+text+`"}`, succ)
		if got := r.last.DueAt.Sub(before); got < d || got > d+time.Minute {
			t.Errorf("%s is in %s", text, got)
		}
	}
	c.ask(`{"cmd":"add","topic":"order_close","id":"1","body":{},"fix_time":null}`, succ)
	if r.last.Delay != 30*time.Minute || !r.last.DueAt.IsZero() {
		t.Errorf("a fix_time of null: %+v", r.last)
	}
}

func TestDeadAndRetriedJobs(t *testing.T) {
	r := start(t, listen.Options{})
	at := time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
	r.jobs["order_close/dead"] = &store.Job{Topic: "order_close", ID: "dead", State: store.Dead, Body: []byte("{}")}
	r.jobs["order_close/again"] = &store.Job{
		Topic: "order_close", ID: "again", State: store.Delayed, Body: []byte("{}"), Attempts: 2, DueAt: at,
		CreatedAt: at,
		NextAt:    at.Add(3 * time.Minute),
	}
	c := r.dial(t)
	c.ask(`{"cmd":"get","topic":"order_close","id":"dead"}`, fail)
	c.ask(`{"cmd":"del","topic":"order_close","id":"dead"}`, fail)
	if r.jobs["order_close/dead"] == nil {
		t.Error("a dead letter was deleted")
	}
	c.ask(`{"cmd":"get","topic":"order_close","id":"again"}`, `{"code":1,"msg":"succ","data":{"exp_notify_nums":2,`+
		`"notify_time":"2026-01-02 12:03:00","dq_set_time":"2026-01-02 12:00:00"}}`)
}

func TestAnUnknownCommandGetsNoAnswerAndTheConnectionStays(t *testing.T) {
	c := start(t, listen.Options{}).dial(t)
	for _, request := range []string{`{"cmd":"stop"}`, `{"cmd":"ADD"}`, `{"cmd":7}`, `{}`, `[]`, `["add"]`} {
		c.send(frame(request))
	}
	c.ask(`{"cmd":"get"}`, fail)
}

func TestWhatIsNoFrameEndsTheConnection(t *testing.T) {
	r := start(t, listen.Options{})
	for _, bytes := range []string{
		"GET / HTTP/1.1\r\n\r\n", "12a4{}", "+002{}", " 002{}", "-002{}", "0000", "0002{]", "0004null", "00017",
		`0003"x"`,
		"0003{}x", "\x16\x03\x01\x02\x00", "0016{\"cmd\":\"\xff\xfe\x00\"}..", "0002\x00\x00",
		"0011{\"cmd\":\"a\x00\"}",
		"10006{\"cmd\":\"get\"}",
	} {
		c := r.dial(t)
		c.send(bytes)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
		c.wantEnd(bytes)
	}
	if len(r.jobs) > 0 {
		t.Errorf("stored %+v", r.jobs)
	}
}

func TestFramesInPiecesAndTogether(t *testing.T) {
	r := start(t, listen.Options{})
	c := r.dial(t)
	request := frame(`{"cmd":"add","topic":"order_close","id":"1","body":{}}`)
	for i := range request {
		c.send(request[i : i+1])
	}
	c.want(succ)
	c.send(strings.Repeat(request, 50) + request[:7])
	for range 50 {
		c.want(succ)
	}
	c.send(request[7:])
	c.want(succ)
}

func TestTheLongestFrame(t *testing.T) {
	r := start(t, listen.Options{})
	c := r.dial(t)
	request := `{"cmd":"add","topic":"order_close","id":"1","body":{"x":"`
	request += strings.Repeat("x", 9999-len(request)-3) + `"}}`
	c.ask(request, succ)
	c.ask(`{"cmd":"get","topic":"order_close","id":"1"}`, fail) // with its times added, it does not fit in a frame
}

// Ten thousand clients that send nothing, or half a frame, block no other client.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	const wanted = 10_000
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	n := min(wanted, (int(files.Cur)-200)/2) // both ends are in this process
	r := start(t, listen.Options{MaxConns: n + 10})
	for i := range n {
		c := r.dial(t)
		if i%2 == 0 {
			c.send("00")
		}
	}
	c := r.dial(t)
	c.ask(`{"cmd":"add","topic":"order_close","id":"1","body":{}}`, succ)
	t.Logf("%d idle connections", n)
}

func TestASlowReaderDelaysNobody(t *testing.T) {
	r := start(t, listen.Options{ShutdownTimeout: time.Second})
	slow := r.dial(t)
	big := `{"cmd":"add","topic":"order_close","id":"1","body":{"x":"` + strings.Repeat("x", 9000) + `"}}`
	slow.ask(big, succ)
	_ = slow.SetWriteDeadline(time.Now().Add(time.Second))
	for { // until all buffers are full: the server waits for the reader
		if _, err := io.WriteString(slow, frame(`{"cmd":"get","topic":"order_close","id":"1"}`)); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
	}
	r.dial(t).ask(`{"cmd":"add","topic":"order_close","id":"2","body":{}}`, succ)
	_ = slow.Close()
}

// TestTimesBeyondAllBoundsAreNone: if they overflowed, their jobs would be due at once.
func TestTimesBeyondAllBoundsAreNone(t *testing.T) {
	r := start(t, listen.Options{})
	c := r.dial(t)
	for _, text := range []string{
		"@9223372036854775807", "+1000000000 hours", "+300000000 minutes", "+9999999999 seconds",
		"+99999999999999999999 days", "1 fortnight", "+ day", "-1 day", "@", "@x", "2026-13-01", "2026-02-30 00:00:00",
		"",
	} {
		c.ask(`{"cmd":"add","topic":"order_close","id":"1","body":{},"fix_time":"`+text+`"}`, fail)
		if len(r.jobs) > 0 {
			t.Fatalf("%q is due at %s", text, r.last.DueAt)
		}
	}
	before := time.Now()
	for text, want := range map[string]time.Time{
		"+3 weeks": before.AddDate(0, 0, 21), "1 month": before.AddDate(0, 1, 0), "+9 Years": before.AddDate(9, 0, 0),
		" now ": before, "+5min": before.Add(5 * time.Minute), "90 sec": before.Add(90 * time.Second),
	} {
		c.ask(`{"cmd":"add","topic":"order_close","id":"1","body":{},"fix_time":"`+text+`"}`, succ)
		if d := r.last.DueAt.Sub(want); d.Abs() > time.Hour+time.Minute { // summer time may begin or end in between
			t.Errorf("%q is due at %s, want %s", text, r.last.DueAt, want)
		}
	}
	zone := time.FixedZone("CST", 8*3600)
	c.ask(`{"cmd":"add","topic":"order_close","id":"1","body":{},"fix_time":"tomorrow"}`, succ)
	if due := r.last.DueAt.In(zone); due.Hour() != 0 || due.Minute() != 0 || due.Before(time.Now()) ||
		time.Until(due) > 24*time.Hour {
		t.Errorf("tomorrow is %s", due)
	}
}

// TestNumbersAreNames in PHP, which has no strict types: for topics, ids and fix_time.
func TestNumbersAreNames(t *testing.T) {
	r := start(t, listen.Options{})
	c := r.dial(t)
	c.ask(`{"cmd":"add","topic":"order_close","id":-1.50,"body":{},"fix_time":20260304}`, succ)
	if due := r.last.DueAt.UTC().Format(time.RFC3339); r.last.ID != "-1.50" || due != "2026-03-03T16:00:00Z" {
		t.Errorf("the id %s is due at %s", r.last.ID, due)
	}
	c.ask(`{"cmd":"del","topic":"order_close","id":"-1.50"}`, succ)
	c.ask(`{"cmd":"add","topic":7,"id":"1","body":{}}`, fail)
	c.ask(`{"cmd":"add","topic":"order_close","id":true,"body":{}}`, fail)
	// of two members with the same name, the last one counts
	c.ask(`{"cmd":"add","topic":"order_close","id":"1","id":"2","body":{"a":1},"body":{"a":2,"a":3}}`, succ)
	if r.last.ID != "2" || string(r.last.Body) != `{"a":2,"a":3}` {
		t.Errorf("of two members with the same name: %s %s", r.last.ID, r.last.Body)
	}
}

// TestWhatIsNoPushTopicIsUnknown: workers take the jobs of pull topics, with another protocol.
func TestWhatIsNoPushTopicIsUnknown(t *testing.T) {
	r := start(t, listen.Options{})
	r.jobs["pulled/1"] = &store.Job{Topic: "pulled", ID: "1", State: store.Ready, Body: []byte("{}")}
	c := r.dial(t)
	for _, command := range []string{"add", "get", "del"} {
		c.ask(`{"cmd":"`+command+`","topic":"pulled","id":"1","body":{}}`, fail)
	}
	if r.jobs["pulled/1"] == nil {
		t.Error("the job of a pull topic was deleted")
	}
}

// TestResultsAreCounted: a client's errors are refused, Wakecall's are unavailable.
func TestResultsAreCounted(t *testing.T) {
	r := start(t, listen.Options{})
	c := r.dial(t)
	const add = `{"cmd":"add","topic":"order_close","id":"1","body":{}}`
	c.ask(add, succ)
	for _, err := range []error{store.ErrTooFar, errors.New("no shard")} {
		r.down = err
		c.ask(add, fail)
	}
	c.ask(`{"cmd":"get","topic":"order_close","id":"1"}`, fail)
	r.down = nil
	c.ask(`{"cmd":"get","topic":"order_close","id":"1"}`, `{"code":1,"msg":"succ","data":{`+
		`"notify_time":"2026-01-02 11:34:05","dq_set_time":"2026-01-02 11:04:05"}}`)
	r.jobs["order_close/1"].State = store.Dead
	c.ask(`{"cmd":"get","topic":"order_close","id":"1"}`, fail)
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == "wakecall_gateway_requests_total" { // labels are in alphabetical order
				counted[m.Label[0].GetValue()+" "+m.Label[2].GetValue()] = m.Counter.GetValue()
			}
		}
	}
	const want = "map[add done:1 add refused:1 add unavailable:1 get done:1 get refused:1 get unavailable:1]"
	if got := fmt.Sprint(counted); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
}
