package test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// lmstfy is an installation with that gateway, and a token for the namespace shop.
type lmstfy struct {
	t          *testing.T
	w          *harness.Wakecall
	api, admin string
	token      string
}

func startLmstfy(t *testing.T) *lmstfy {
	t.Helper()
	l := &lmstfy{
		t: t, api: fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t)), admin: fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t)),
	}
	l.w = harness.StartWakecall(t, harness.Options{Env: map[string]string{
		"WAKECALL_GATEWAYS_LMSTFY_ADDR": l.api, "WAKECALL_GATEWAYS_LMSTFY_ADMIN_ADDR": l.admin,
	}})
	until(t, "the gateway answers", func() bool {
		resp, err := http.Get("http://" + l.admin + "/version")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	})
	created := l.ask(l.admin, "POST", "/token/shop?description=the+shop", "", nil)
	l.token = created.must(t, 201).value["token"].(string)
	return l
}

// An lmstfyAnswer is a status and a JSON value.
type lmstfyAnswer struct {
	status int
	text   string
	value  map[string]any
	list   []map[string]any
	header http.Header
}

func (a lmstfyAnswer) must(t *testing.T, status int) lmstfyAnswer {
	t.Helper()
	if a.status != status {
		t.Fatalf("answered %d %s, want %d", a.status, a.text, status)
	}
	return a
}

func (l *lmstfy) ask(addr, method, path, body string, header map[string]string) lmstfyAnswer {
	l.t.Helper()
	req, err := http.NewRequest(method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	for name, value := range header {
		req.Header[name] = []string{value}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	a := lmstfyAnswer{status: resp.StatusCode, text: string(text), header: resp.Header}
	if json.Unmarshal(text, &a.value) != nil {
		_ = json.Unmarshal(text, &a.list)
	}
	if resp.Header.Get("X-Request-ID") == "" {
		l.t.Errorf("%s %s: no X-Request-ID", method, path)
	}
	return a
}

// do sends a request with the token.
func (l *lmstfy) do(method, path, body string) lmstfyAnswer {
	l.t.Helper()
	return l.ask(l.api, method, "/api/shop/"+path, body, map[string]string{"X-Token": l.token})
}

func (l *lmstfy) publish(queue, query, body string) string {
	l.t.Helper()
	return l.do("PUT", queue+"?"+query, body).must(l.t, 201).value["job_id"].(string)
}

func (l *lmstfy) consume(queue, query string) map[string]any {
	l.t.Helper()
	return l.do("GET", queue+"?"+query, "").must(l.t, 200).value
}

func TestLmstfyPublishConsumeAck(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	id := l.publish("close", "ttl=10&tries=3", "order \x00\xff 42")
	if len(id) != 26 {
		t.Errorf("the id %q is not a ULID", id)
	}
	if size := l.ask(l.api, "GET", "/api/shop/close/size", "", nil).must(t, 200); size.text !=
		`{"namespace":"shop","queue":"close","size":1}` {
		t.Errorf("size without a token: %s", size.text)
	}
	job := l.consume("close", "ttr=30")
	want := map[string]any{
		"attributes": nil, "data": base64.StdEncoding.EncodeToString([]byte("order \x00\xff 42")), "job_id": id,
		"msg": "new job", "namespace": "shop", "queue": "close", "remain_tries": 2.0, "ttl": 10.0,
	}
	for member, value := range want {
		if job[member] != value {
			t.Errorf("%s is %v, want %v", member, job[member], value)
		}
	}
	l.do("GET", "close", "").must(t, 404)
	l.do("DELETE", "close/job/"+id, "").must(t, 204)
	l.do("GET", "close/job/"+id, "").must(t, 404)
	l.do("DELETE", "close/job/"+id, "").must(t, 204)
}

func TestLmstfyTriesAndDeadLetter(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	first := l.publish("q", "tries=1&ttl=60", "one")
	l.consume("q", "ttr=1")
	second := l.publish("q", "tries=1&ttl=60", "two")
	until(t, "the first job is in the dead letter", func() bool {
		return l.do("GET", "q/deadletter", "").must(t, 200).value["deadletter_head"] == first
	})
	if job := l.consume("q", "ttr=1"); job["job_id"] != second {
		t.Errorf("consumed %v, want the second job", job)
	}
	until(t, "both jobs are in the dead letter", func() bool {
		return l.do("GET", "q/deadletter", "").must(t, 200).value["deadletter_size"] == 2.0
	})
	if a := l.do("PUT", "q/deadletter?limit=1", "").must(t, 200); a.text != `{"count":1,"msg":"respawned"}` {
		t.Errorf("respawn: %s", a.text)
	}
	job := l.consume("q", "")
	if job["job_id"] != first || job["remain_tries"] != 0.0 || job["ttl"] != 86400.0 {
		t.Errorf("the respawned job is %v, want %s with one try and a ttl of a day", job, first)
	}
	l.do("DELETE", "q/deadletter?limit=10", "").must(t, 204)
	if a := l.do("GET", "q/deadletter", ""); a.text !=
		`{"deadletter_head":"","deadletter_size":0,"namespace":"shop","queue":"q"}` {
		t.Errorf("after its deletion the dead letter is %s", a.text)
	}
}

func TestLmstfyNeverEarlyAndExpires(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	began := time.Now()
	l.publish("q", "delay=2&ttl=60", "late")
	l.publish("q", "ttl=1", "gone")
	time.Sleep(1200 * time.Millisecond) // the ttl is what is tested
	job := l.consume("q", "timeout=10")
	if data, _ := base64.StdEncoding.DecodeString(job["data"].(string)); string(data) != "late" {
		t.Errorf("consumed %q, which had expired", data)
	}
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("consumed after %s, want at least 2 s", took)
	}
	if a := l.do("GET", "q/deadletter", ""); a.value["deadletter_size"] != 0.0 {
		t.Errorf("an expired job is in the dead letter: %s", a.text)
	}
}

func TestLmstfySeveralQueuesAndBulk(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	bulk := l.do("PUT", "b/bulk", `[1, {"a": 2}, "x"]`).must(t, 201)
	if ids := bulk.value["job_ids"].([]any); len(ids) != 3 {
		t.Fatalf("bulk: %s", bulk.text)
	}
	l.publish("a", "", "first")
	if job := l.consume("a,b", "timeout=1"); job["queue"] != "a" {
		t.Errorf("consumed from %v, want the first queue named", job["queue"])
	}
	batch := l.do("GET", "b?count=10", "").must(t, 200)
	if len(batch.list) != 3 {
		t.Fatalf("a batch of 10 has %d jobs, want 3: %s", len(batch.list), batch.text)
	}
	if data := batch.list[1]["data"]; data != base64.StdEncoding.EncodeToString([]byte(`{"a": 2}`)) {
		t.Errorf("the second job of the bulk is %v", data)
	}
	waited := make(chan lmstfyAnswer, 1)
	go func() { waited <- l.do("GET", "a,b?timeout=20", "") }()
	l.publish("b", "", "woken")
	if a := <-waited; a.status != 200 || a.value["queue"] != "b" {
		t.Errorf("a waiting consume answered %d %s", a.status, a.text)
	}
}

func TestLmstfyRefusals(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"PUT", "q?delay=x", "", 400, `{"error":"invalid delay"}`},
		{"PUT", "q?delay=", "", 400, `{"error":"invalid delay"}`},
		{"PUT", "q?ttl=-1", "", 400, `{"error":"invalid ttl"}`},
		{"PUT", "q?ttl=5&delay=6", "", 400, `{"error":"ttl is shorter than delay"}`},
		{"PUT", "q?tries=0", "", 400, `{"error":"tries shouldn't be zero"}`},
		{"PUT", "q?tries=65536", "", 400, `{"error":"invalid tries"}`},
		{"PUT", "_q", "", 400, `{"error":"queue name contains forbidden characters"}`},
		{"PUT", "q.r", "", 400, `{"error":"queue name contains forbidden characters"}`},
		{"PUT", strings.Repeat("q", 256), "", 400, `{"error":"namespace or queue name too long"}`},
		{"PUT", "q", strings.Repeat("x", 1<<20+1), 413, `{"error":"body too large"}`},
		{"PUT", "q/bulk", `{}`, 400, `{"error":"request body should be an array of objects"}`},
		{"PUT", "q/bulk", `[]`, 400, `{"error":"no jobs"}`},
		{"PUT", "q/bulk", "[" + strings.Repeat("1,", 64) + "1]", 400, `{"error":"too many jobs"}`},
		{"GET", "q?ttr=x", "", 400, `{"error":"invalid ttr"}`},
		{"GET", "q?timeout=x", "", 400, `{"error":"invalid timeout"}`},
		{"GET", "q?count=0", "", 400, `{"error":"invalid count"}`},
		{"GET", "q?count=101", "", 400, `{"error":"invalid count"}`},
		{"GET", ",", "", 400, `{"error":"invalid queue name(s)"}`},
		{"GET", "q", "", 404, `{"msg":"no job available"}`},
		{"GET", "q/peek", "", 404, `{"error":"the queue is empty"}`},
		{"GET", "q/job/none", "", 404, `{"error":"job not found"}`},
		{"PUT", "q/deadletter?limit=0", "", 400, `{"error":"invalid limit"}`},
		{"PUT", "q/deadletter?ttl=-1", "", 400, `{"error":"invalid ttl"}`},
		{"DELETE", "q/deadletter?limit=x", "", 400, `{"error":"invalid limit"}`},
		{"POST", "q", "", 404, `{"error":"api not found"}`},
		{"GET", "q/", "", 404, `{"error":"api not found"}`},
		{"GET", "q/other", "", 404, `{"error":"api not found"}`},
	} {
		if a := l.do(c.method, c.path, c.body); a.status != c.status || a.text != c.answer {
			t.Errorf("%s %.60s: %d %s, want %d %s", c.method, c.path, a.status, a.text, c.status, c.answer)
		}
	}
	for token, want := range map[string]string{
		"": `{"error":"token not found"}`, "none": `{"error":"invalid token"}`, "p:x": `{"error":"pool not found"}`,
	} {
		if a := l.ask(l.api, "PUT", "/api/shop/q?token="+token, "", nil); a.text != want {
			t.Errorf("token %q: %d %s, want %s", token, a.status, a.text, want)
		}
	}
	if a := l.ask(l.api, "PUT", "/api/other/q?token="+l.token, "", nil); a.status != 401 {
		t.Errorf("the token of another namespace: %d %s", a.status, a.text)
	}
}

func TestLmstfyTokensAndLimits(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	limit := "/token/shop/" + l.token + "/limit"
	if a := l.ask(l.admin, "POST", limit, `{"read":1,"write":2,"interval":60}`, nil); a.status != 201 || a.text !=
		`{"limiter":{"read":1,"write":2,"interval":60}}` {
		t.Fatalf("adding a limit: %d %s", a.status, a.text)
	}
	l.ask(l.admin, "POST", limit, `{"read":1,"write":2,"interval":60}`, nil).must(t, 500)
	l.ask(l.admin, "PUT", limit, `{"read":1,"write":1}`, nil).must(t, 400)
	l.do("GET", "q", "").must(t, 404) // the old value
	l.publish("q", "", "1")
	l.publish("q", "", "2")
	if a := l.do("PUT", "q", "3"); a.status != 429 || a.text !=
		`{"msg":"token(`+l.token+`) produce reach the limit rate, please retry later"}` {
		t.Errorf("the third publish: %d %s", a.status, a.text)
	}
	l.consume("q", "")
	l.do("GET", "q", "").must(t, 429)
	l.ask(l.admin, "DELETE", limit, "", nil).must(t, 200)
	l.ask(l.admin, "GET", limit, "", nil).must(t, 404)
	l.consume("q", "")

	own := "my-own-token-of-24-bytes"
	l.ask(l.admin, "POST", "/token/shop?description=d&token="+own, "", nil).must(t, 201)
	l.ask(l.admin, "POST", "/token/shop?description=d&token="+own, "", nil).must(t, 400)
	l.ask(l.admin, "POST", "/token/shop?description=d&token=short", "", nil).must(t, 400)
	l.ask(l.admin, "POST", "/token/shop", "", nil).must(t, 400)
	tokens := l.ask(l.admin, "GET", "/token/shop", "", nil).must(t, 200).value["tokens"].(map[string]any)
	if tokens[own] != "d" || tokens[l.token] != "the shop" {
		t.Errorf("the tokens are %v", tokens)
	}
	l.ask(l.admin, "DELETE", "/token/shop/"+own, "", nil).must(t, 204)
	until(t, "the deleted token is refused", func() bool {
		return l.ask(l.api, "PUT", "/api/shop/q", "", map[string]string{"X-Token": own}).status == 401
	})
}

func TestLmstfyAttributes(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	headers := map[string]string{"X-Token": l.token, "Enable-Job-Version": "yes", "Job-Attr-Trace": "abc"}
	a := l.ask(l.api, "PUT", "/api/shop/q", "x", headers).must(t, 201)
	if id := a.value["job_id"].(string); len(id) != 27 || id[0] != '1' {
		t.Errorf("the id of a job with attributes is %s", id)
	}
	job := l.consume("q", "")
	if got := fmt.Sprint(job["attributes"]); got != "map[trace:abc]" {
		t.Errorf("attributes: %s", got)
	}
	delete(headers, "Enable-Job-Version")
	l.ask(l.api, "PUT", "/api/shop/q", "x", headers).must(t, 201)
	if job := l.consume("q", ""); job["attributes"] != nil {
		t.Errorf("attributes of a client that does not know them: %v", job["attributes"])
	}
}

func TestLmstfyPeekRepublishDestroy(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	first := l.publish("q", "tries=5", "one")
	l.publish("q", "", "two")
	later := l.publish("q", "delay=3600", "later")
	peeked := l.do("GET", "q/peek", "").must(t, 200).value
	if peeked["job_id"] != first || peeked["remain_tries"] != 5.0 || peeked["msg"] != nil {
		t.Errorf("peek: %v", peeked)
	}
	if job := l.do("GET", "q/job/"+later, "").must(t, 200).value; job["remain_tries"] != 0.0 || job["data"] == nil {
		t.Errorf("a delayed job: %v", job)
	}
	again := l.do("PUT", "q/job/"+first+"?tries=2", "three").must(t, 201).value["job_id"]
	l.do("GET", "q/job/"+first, "").must(t, 404)
	if a := l.do("GET", "q/job/"+again.(string), "").must(t, 200); again == first {
		t.Errorf("republished under the same id: %s", a.text)
	}
	l.do("DELETE", "q", "").must(t, 204)
	if a := l.do("GET", "q/size", "").must(t, 200); a.value["size"] != 0.0 {
		t.Errorf("after destroy: %s", a.text)
	}
	l.do("GET", "q/job/"+later, "").must(t, 200) // delayed jobs stay
}

func TestLmstfyAdminRoutes(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	admin := func(method, path string) lmstfyAnswer { return l.ask(l.admin, method, path, "", nil) }
	if a := admin("GET", "/pools").must(t, 200); a.text != "[\n    \"default\"\n]" {
		t.Errorf("pools: %q", a.text)
	}
	if a := admin("GET", "/version").must(t, 200); a.value["version"] == "" {
		t.Errorf("version: %s", a.text)
	}
	l.publish("Queue_1", "", "x")
	harness.Eventually(t, time.Minute, "info lists the queue", func() error {
		if a := admin("GET", "/info").must(t, 200); a.text != "{\n    \"shop\": [\n        \"Queue_1\"\n    ]\n}" {
			return errors.New(a.text)
		}
		return nil
	})
	metrics := admin("GET", "/metrics").must(t, 200).text
	for _, want := range []string{
		`infra_lmstfy_redis_publish_queue_jobs{namespace="shop",pool="default",queue="Queue_1"} 1`,
		`infra_lmstfy_redis_queue_sizes{namespace="shop",pool="default",queue="Queue_1"} 1`,
		`infra_lmstfy_http_http_codes{api="publish",code="201",method="PUT",namespace="shop",pool="default"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	if a := admin("GET", "/accesslog").must(t, 200); a.text != `{"status":"disabled"}` {
		t.Errorf("access log: %s", a.text)
	}
	if a := admin("POST", "/accesslog?status=enable").must(t, 200); a.text != `{"status":"enabled"}` {
		t.Errorf("access log: %s", a.text)
	}
	if a := admin("POST", "/accesslog?status=x").must(t, 400); a.text != `{"error":"invalid status"}` {
		t.Errorf("access log: %s", a.text)
	}
	admin("GET", "/token/shop?pool=none").must(t, 400)
	admin("GET", "/none").must(t, 404)
	if a := l.ask(l.admin, "GET", "/limits", "", nil).must(t, 200); a.text != "[]" {
		t.Errorf("limits: %s", a.text)
	}
}

// TestLmstfyQueuesOfOneJob are created and emptied without leaving any keys.
func TestLmstfyQueuesOfOneJob(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	db := redis.NewClient(&redis.Options{Network: "unix", Addr: filepath.Join(l.w.Data, "redis", "redis.sock")})
	defer db.Close()
	keys := func() int64 {
		n, err := db.DBSize(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	l.publish("warm", "", "x")
	l.consumeAndAck("warm")
	before := keys()
	for i := range 50 {
		queue := fmt.Sprintf("result-%d", i)
		l.publish(queue, "", "x")
		l.consumeAndAck(queue)
	}
	harness.Eventually(t, time.Minute, "the keys of the queues are gone", func() error {
		if after := keys(); after > before+5 {
			return fmt.Errorf("%d keys, %d before", after, before)
		}
		return nil
	})
}

func (l *lmstfy) consumeAndAck(queue string) {
	l.t.Helper()
	job := l.consume(queue, "timeout=5")
	l.do("DELETE", queue+"/job/"+job["job_id"].(string), "").must(l.t, 204)
}

// TestLmstfySynchronousJob: lmstfy's way to wait for a job. The producer consumes from a queue named by the job's id,
// and the worker publishes its answer there.
func TestLmstfySynchronousJob(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	for range 3 {
		id := l.publish("price", "ttl=60&tries=1", "sku 7")
		worker := make(chan struct{})
		go func() {
			defer close(worker)
			job := l.consume("price", "ttr=30&timeout=10")
			l.publish(job["job_id"].(string), "ttl=60&tries=1", "42 EUR")
			l.do("DELETE", "price/job/"+id, "").must(t, 204)
		}()
		answer := l.consume(id, "ttr=30&timeout=10")
		if answer["data"] != base64.StdEncoding.EncodeToString([]byte("42 EUR")) {
			t.Errorf("the answer is %v", answer)
		}
		l.do("DELETE", id+"/job/"+answer["job_id"].(string), "").must(t, 204)
		<-worker
		if size := l.do("GET", id+"/size", "").must(t, 200); size.value["size"] != 0.0 {
			t.Errorf("afterwards: %s", size.text)
		}
	}
}
