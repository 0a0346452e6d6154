package delayqueue

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/pulltest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client sends requests to a gateway whose pops wait 50 ms.
type client struct {
	*testing.T
	q *pulltest.Queue
	h http.Handler
}

func newClient(t *testing.T) *client {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	g := New(pulltest.Endpoint(t, "delayqueue"), q, q.Hub, q.Registry.Snapshot, 64)
	g.popWait = 50 * time.Millisecond
	return &client{t, q, g.handler()}
}

func (c *client) ask(method, path, body string) string {
	c.Helper()
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		c.Errorf("%s %s: %d %s %s", method, path, w.Code, w.Header(), w.Body)
	}
	return w.Body.String()
}

func (c *client) want(path, body, answer string) {
	c.Helper()
	if got := c.ask("POST", path, body); got != answer {
		c.Errorf("%s %s: %s, want %s", path, body, got, answer)
	}
}

const (
	okAnswer    = `{"code":0,"message":"操作成功","data":null}`
	addedAnswer = `{"code":0,"message":"添加成功","data":null}`
)

func refusal(text string) string { return `{"code":1,"message":"` + text + `","data":null}` }

func TestWhatIsWrongIsTold(t *testing.T) {
	c := newClient(t)
	push := func(id, topic, delay, ttr string) string {
		return fmt.Sprintf(`{"id":%s,"topic":%s,"delay":%s,"ttr":%s,"body":"x"}`, id, topic, delay, ttr)
	}
	for body, text := range map[string]string{
		"": "解析json失败", "[]": "解析json失败", `{"id":"1"`: "解析json失败", push(`1`, `"t"`, "1", "1"): "解析json失败",
		push(`"1"`, `"t"`, `"1"`, "1"): "解析json失败", push(`"1"`, `"t"`, "1", `"1"`): "解析json失败",
		`{"id":"1","topic":"t","delay":1,"ttr":1,"body":{}}`: "解析json失败", "{\"id\":\"\xff\"}": "解析json失败",
		push(`" "`, `""`, "0", "0"): "job id不能为空", push(`"1"`, `" "`, "0", "0"): "topic 不能为空", // id, topic, delay, ttr
		push(`"1"`, `"t"`, "0", "0"):          "delay 取值范围1 - (2^31 - 1)",
		push(`"1"`, `"t"`, "2147483649", "0"): "delay 取值范围1 - (2^31 - 1)",
		push(`"1"`, `"t"`, "1", "0"):          "ttr 取值范围1 - 86400",
		push(`"1"`, `"t"`, "1", "86401"):      "ttr 取值范围1 - 86400",
	} {
		c.want("/push", body, refusal(text))
	}
	if got := c.ask("POST", "/push", push(`"`+strings.Repeat("x", 129)+`"`, `"t"`, "1", "1")); !strings.HasPrefix(got,
		`{"code":1,"message":"job id: `) {
		t.Errorf("an oversized id: %s", got)
	}
	if got := c.ask("POST", "/pop", `{"topic":"`+strings.Repeat("t,", 21)+`"}`); got != refusal("21 topics in one "+
		"request; the limit is 20 (pull.topics_per_request): wait for fewer topics at once, or raise it") {
		t.Errorf("too many topics: %s", got)
	}
	if got := c.ask("POST", "/push", `{"id":"`+strings.Repeat("x", 5000)+`"}`); got != refusal("读取request body失败") {
		t.Errorf("an oversized request: %s", got)
	}
	for _, path := range []string{"/pop", "/finish", "/delete", "/get"} {
		c.want(path, "x", refusal("解析json失败"))
	}
	c.want("/pop", `{}`, refusal("topic不能为空"))
	c.want("/pop", `{"topic":"  "}`, refusal("topic不能为空"))
	c.want("/pop", `{"topic":" , "}`, okAnswer) // waits, although such topics have no jobs
	for _, path := range []string{"/finish", "/delete", "/get"} {
		c.want(path, `{"id":" "}`, refusal("job id不能为空"))
	}
	for _, path := range []string{"/", "/push/", "/none"} {
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Code != 404 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestAnyMethodIsServed(t *testing.T) {
	c := newClient(t)
	for i, method := range []string{"GET", "PUT", "DELETE", "POST"} {
		body := fmt.Sprintf(`{"id":" %d ","topic":" t ","delay":2147483648,"ttr":86400,"body":" b "}`, i)
		if got := c.ask(method, "/push", body); got != addedAnswer {
			t.Errorf("%s: %s", method, got)
		}
	}
	var got struct {
		Code int
		Data foundJob
	}
	text := c.ask("PUT", "/get", `{"id":"0"}`)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	due := time.Until(time.Unix(got.Data.Delay, 0))
	if j := got.Data; j.ID != "0" || j.Topic != "t" || j.TTR != 86400 || j.Body != " b " ||
		due < store.MaxDelay-time.Hour || due > store.MaxDelay {
		t.Errorf("get: %s, due in %s", text, due)
	}
	members := `{"code":0,"message":"操作成功","data":{"topic":"t","id":"0","delay":`
	if !strings.HasPrefix(text, members) {
		t.Errorf("get: %s", text)
	}
	for _, path := range []string{"/finish", "/delete"} {
		c.want(path, `{"id":"1"}`, okAnswer)
		c.want(path, `{"id":"1"}`, okAnswer) // even if it is unknown
	}
	c.want("/get", `{"id":"1"}`, okAnswer)
}

// An id is unique over all topics; a push replaces its job, and a pop serves the topics in their order.
func TestPopsServeTopicsInTheirOrder(t *testing.T) {
	c := newClient(t)
	c.want("/pop", `{"topic":"a"}`, okAnswer) // no job became ready in time
	c.want("/push", `{"id":"1","topic":"b","delay":3600,"ttr":60,"body":"old"}`, addedAnswer)
	c.want("/push", `{"id":"1","topic":"a","delay":1,"ttr":1,"body":"{\"a\":1}"}`, addedAnswer)
	c.want("/push", `{"id":"2","topic":"b","delay":1,"ttr":60,"body":"\u0000é"}`, addedAnswer)
	c.want("/push", `{"id":"gone","topic":"a","delay":1,"ttr":60,"body":""}`, addedAnswer)
	c.want("/delete", `{"id":"gone"}`, okAnswer)
	pop := func(topics string) (got string) {
		wait.For(t, "a pop of "+topics, func() bool {
			got = c.ask("POST", "/pop", `{"topic":"`+topics+`"}`)
			return got != okAnswer
		})
		return strings.TrimSuffix(strings.TrimPrefix(got, `{"code":0,"message":"操作成功","data":`), "}")
	}
	second := pop("b")
	c.want("/pop", `{"topic":"b, a ,a ,,b"}`, okAnswer) // names in a list are not trimmed
	first := pop(" none,,a,b ")
	if first != `{"id":"1","body":"{\"a\":1}"}` || second != `{"id":"2","body":"\u0000é"}` {
		t.Errorf("popped %s and %s", first, second)
	}
	if again := pop("b,a"); again != first { // its ttr is over; that of the other is not
		t.Errorf("then %s, want the first one again", again)
	}
}

func TestYouzansCommands(t *testing.T) {
	c := newClient(t)
	for body, answer := range map[string]string{
		`{`:                             `{"success":false,"error":"解析json失败"}`,
		`{"command":"pop","topic":" "}`: `{"success":false,"error":"topic不能为空"}`,
		`{"command":"add","topic":"t","delay":1,"TTR":1}`:          `{"success":false,"error":"job id不能为空"}`,
		`{"command":"add","topic":"t","id":"1","delay":0,"TTR":1}`: `{"success":false,"error":"delay 取值范围1 - (2^31 - 1)"}`,
		`{"command":"add","topic":"t","id":"1","delay":1}`:         `{"success":false,"error":"ttr 取值范围1 - 86400"}`,
		`{"command":"finish"}`:                                     `{"success":false,"error":"job id不能为空"}`,
		`{"command":"delete","id":"none"}`:                         `{"success":true}`,
		`{"command":"x"}`:                                          `{"success":false,"error":"unknown command \"x\": expected add, pop, finish or delete"}`,
	} {
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/command", strings.NewReader(body)))
		if w.Code != 200 || w.Body.String() != answer {
			t.Errorf("%s: %d %s, want %s", body, w.Code, w.Body, answer)
		}
	}
	c.want("/command", `{"command":"add","topic":"t","id":"1","delay":1,"TTR":60,"body":"{\"x\":1}"}`,
		`{"success":true}`)
	c.want("/command", `{"command":"pop","topic":"t"}`, `{"success":true}`) // it does not wait
	wait.For(t, "a pop gets the job", func() bool {
		return c.ask("POST", "/command",
			`{"command":"pop","topic":"t"}`) == `{"success":true,"id":"1","value":"{\"x\":1}"}`
	})
	c.want("/command", `{"command":"delete","id":"1"}`, `{"success":true}`)
	c.want("/get", `{"id":"1"}`, okAnswer)
	w := httptest.NewRecorder()
	if c.h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/command", nil)); w.Code != 405 ||
		w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %d", w.Code)
	}
}

// TestATopicsTTRIsShown for a job of the API without its own ttr.
func TestATopicsTTRIsShown(t *testing.T) {
	c := newClient(t)
	if r := c.q.Push(t.Context(), store.Push{Topic: topicOf("T"), ID: "7", Body: []byte("x")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := c.ask("POST", "/get", `{"id":"7"}`); !strings.Contains(got, `"ttr":10,`) {
		t.Error(got)
	}
}

// TestAnOfflineTopicTakesNoPushes, of both protocols, while jobs that it has can be finished.
func TestAnOfflineTopicTakesNoPushes(t *testing.T) {
	c := newClient(t)
	c.want("/push", `{"id":"1","topic":"t","delay":1000,"ttr":60,"body":""}`, addedAnswer)
	c.q.TakeOffline(t, topicOf("t"))
	c.want("/push", `{"id":"2","topic":"t","delay":1,"ttr":60,"body":""}`, refusal("添加失败"))
	c.want("/command", `{"command":"add","topic":"t","id":"2","delay":1,"TTR":60}`, `{"success":false,"error":"添加失败"}`)
	c.want("/push", `{"id":"2","topic":"u","delay":1000,"ttr":60,"body":""}`, addedAnswer)
	c.want("/finish", `{"id":"1"}`, okAnswer)
	c.want("/get", `{"id":"1"}`, okAnswer)
	c.q.TakeOffline(t, Namespace)
	c.want("/push", `{"id":"3","topic":"u","delay":1,"ttr":60,"body":""}`, refusal("添加失败"))
}

// TestTopicsThatPopsWaitForAreLimited for all clients together: nobody has a token.
func TestTopicsThatPopsWaitForAreLimited(t *testing.T) {
	c := newClient(t)
	pop := func(i int) string {
		var names []string
		for n := range pulltest.MaxTopics {
			names = append(names, fmt.Sprintf("t%d-%d", i, n))
		}
		return c.ask("POST", "/pop", `{"topic":"`+strings.Join(names, ",")+`"}`)
	}
	for i := range 2 {
		if got := pop(i); got != okAnswer {
			t.Errorf("pop %d: %s", i, got)
		}
	}
	if got := pop(3); got != refusal("workers of namespace delayqueue.* wait for 40 topics, and this request names "+
		"20 others; the limit is 40 (pull.topics_per_namespace): wait for fewer topics at once, or raise it") {
		t.Error(got)
	}
	if got := pop(0); got != okAnswer {
		t.Errorf("a pop of the same names: %s", got)
	}
}
