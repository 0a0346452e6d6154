package test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// startGateway starts an installation with one gateway, and returns the gateway's address.
func startGateway(t *testing.T, name string) (*harness.Wakecall, string) {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
	w := harness.StartWakecall(t, harness.Options{Env: map[string]string{"WAKECALL_GATEWAYS_" + name + "_ADDR": addr}})
	waitListening(t, addr)
	return w, addr
}

// delayQueue is a client of ouqiang/delay-queue.
type delayQueue struct {
	t    *testing.T
	addr string
}

func (d delayQueue) post(path, body string) string {
	d.t.Helper()
	resp, err := http.Post("http://"+d.addr+path, "application/json", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		d.t.Fatalf("%s: %s %s %s", path, resp.Status, resp.Header, text)
	}
	return string(text)
}

func (d delayQueue) want(path, body, answer string) {
	d.t.Helper()
	if got := d.post(path, body); got != answer {
		d.t.Errorf("%s %s: %s, want %s", path, body, got, answer)
	}
}

const (
	delayQueueOK    = `{"code":0,"message":"操作成功","data":null}`
	delayQueueAdded = `{"code":0,"message":"添加成功","data":null}`
)

func TestDelayQueueClients(t *testing.T) {
	t.Parallel()
	_, addr := startGateway(t, "DELAYQUEUE")
	d := delayQueue{t, addr}
	began := time.Now()
	d.want("/push", `{"topic":"Order","id":"42","delay":1,"ttr":2,"body":" {\"a\":1} "}`, delayQueueAdded)
	var got struct {
		Data struct {
			Topic, ID, Body string
			Delay, TTR      int64
		}
	}
	if err := json.Unmarshal([]byte(d.post("/get", `{"id":"42"}`)), &got); err != nil {
		t.Fatal(err)
	}
	j := got.Data
	if j.Topic != "Order" || j.ID != "42" || j.TTR != 2 || j.Delay < began.Unix()+1 || j.Body != ` {"a":1} ` {
		t.Errorf("get: %+v", j)
	}
	popped := `{"code":0,"message":"操作成功","data":{"id":"42","body":" {\"a\":1} "}}`
	d.want("/pop", `{"topic":"other, Order"}`, popped)
	if took := time.Since(began); took < time.Second {
		t.Errorf("popped after %s, want at least 1 s", took)
	}
	d.want("/pop", `{"topic":"Order"}`, popped) // it is delivered again after its ttr
	d.want("/finish", `{"id":"42"}`, delayQueueOK)
	d.want("/finish", `{"id":"42"}`, delayQueueOK)
	d.want("/get", `{"id":"42"}`, delayQueueOK)
}

func TestDelayQueueIDsAreUniqueOverTopics(t *testing.T) {
	t.Parallel()
	_, addr := startGateway(t, "DELAYQUEUE")
	d := delayQueue{t, addr}
	d.want("/push", `{"topic":"a","id":"1","delay":1,"ttr":60,"body":"first"}`, delayQueueAdded)
	d.want("/push", `{"topic":"b","id":"1","delay":1,"ttr":60,"body":"second"}`, delayQueueAdded)
	d.want("/pop", `{"topic":"a,b"}`, `{"code":0,"message":"操作成功","data":{"id":"1","body":"second"}}`)
	d.want("/delete", `{"id":"1"}`, delayQueueOK)
	d.want("/command", `{"command":"pop","topic":"a"}`, `{"success":true}`)
	d.want("/command", `{"command":"add","topic":"a","id":"2","delay":1,"TTR":9,"body":"x"}`, `{"success":true}`)
	until(t, "Youzan's pop gets the job", func() bool {
		return d.post("/command", `{"command":"pop","topic":"a"}`) == `{"success":true,"id":"2","value":"x"}`
	})
	d.want("/command", `{"command":"finish","id":"2"}`, `{"success":true}`)
}

func TestDelayQueueRefusals(t *testing.T) {
	t.Parallel()
	_, addr := startGateway(t, "DELAYQUEUE")
	d := delayQueue{t, addr}
	for _, c := range [][3]string{
		{"/push", `{`, "解析json失败"},
		{"/push", `{"topic":"a","id":1,"delay":1,"ttr":1,"body":""}`, "解析json失败"},
		{"/push", "{\"topic\":\"a\",\"id\":\"\xff\",\"delay\":1,\"ttr\":1,\"body\":\"\"}", "解析json失败"},
		{"/push", `{"topic":"a","id":" ","delay":0,"ttr":0}`, "job id不能为空"},
		{"/push", `{"topic":"","id":"1","delay":0,"ttr":0}`, "topic 不能为空"},
		{"/push", `{"topic":"a","id":"1","delay":0,"ttr":0}`, "delay 取值范围1 - (2^31 - 1)"},
		{"/push", `{"topic":"a","id":"1","delay":2147483649,"ttr":0}`, "delay 取值范围1 - (2^31 - 1)"},
		{"/push", `{"topic":"a","id":"1","delay":1,"ttr":86401}`, "ttr 取值范围1 - 86400"},
		{"/pop", `{"topic":" , "}`, "topic不能为空"},
		{"/get", `{"id":""}`, "job id不能为空"},
		{"/delete", `{}`, "job id不能为空"},
	} {
		d.want(c[0], c[1], `{"code":1,"message":"`+c[2]+`","data":null}`)
	}
	resp, err := http.Get("http://" + addr + "/other")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown path: %s", resp.Status)
	}
}

// grape is a client of Grape.
type grape struct {
	t    *testing.T
	addr string
}

func (g grape) ask(method, path, query, body string) (int, string) {
	g.t.Helper()
	req, err := http.NewRequest(method, "http://"+g.addr+path+"?"+query, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (g grape) want(method, path, query, body, answer string) {
	g.t.Helper()
	if status, got := g.ask(method, path, query, body); status != http.StatusOK || got != answer {
		g.t.Errorf("%s %s?%s: %d %s, want %s", method, path, query, status, got, answer)
	}
}

func (g grape) refused(method, path, query, answer string) {
	g.t.Helper()
	if status, got := g.ask(method, path, query, ""); status != http.StatusBadRequest || got != answer {
		g.t.Errorf("%s %s?%s: %d %s, want 400 %s", method, path, query, status, got, answer)
	}
}

func TestGrapeClients(t *testing.T) {
	t.Parallel()
	_, addr := startGateway(t, "GRAPE")
	g := grape{t, addr}
	g.want("POST", "/api/tube/create", "tube=Orders", "", "true")
	g.want("POST", "/api/tube/create", "tube=Orders", "", "true")
	g.want("GET", "/api/tube/list", "", "", `["Orders"]`)
	body := "\x00\xff?>"
	g.want("POST", "/api/job/produce", "tube=Orders&jid=1&ttr=60000", body, "true")
	g.want("POST", "/api/job/produce", "tube=Orders&id=1", "other", "false")
	data := base64.RawURLEncoding.EncodeToString([]byte(body))
	job := func(dtr, noe int) string {
		return fmt.Sprintf(`[{"id":"1","dtr":%d,"ttr":60000,"noe":%d,"data":"%s"}]`, dtr, noe, data)
	}
	g.want("GET", "/api/job/consume", "tube=Orders&max=x", "", job(0, 0))
	g.want("GET", "/api/job/consume", "tube=Orders", "", `[]`)
	g.want("DELETE", "/api/job/delete", "tube=Orders&jid=1", "", "false")
	g.want("PUT", "/api/job/release", "tube=Orders&jid=1&dtr=0", "", "true")
	g.want("PUT", "/api/job/release", "tube=Orders&jid=1", "", "false")
	g.want("GET", "/api/job/consume", "tube=Orders&max=5", "", job(0, 1))
	g.want("PUT", "/api/job/bury", "tube=Orders&jid=1", "", "true")
	g.want("GET", "/api/job/peek", "tube=Orders", "", job(0, 2))
	g.want("PUT", "/api/job/kick", "tube=Orders&jid=1&dtr=0", "", "true")
	if _, got := g.ask("GET", "/api/job/consume", "tube=Orders", ""); !strings.Contains(got, `"id":"1"`) {
		t.Errorf("after a kick: %s", got)
	}
	g.want("DELETE", "/api/job/finish", "tube=Orders&jid=1", "", "true")
	g.want("DELETE", "/api/job/finish", "tube=Orders&jid=1", "", "false")
	g.want("POST", "/api/job/produce", "tube=Orders&jid=2&dtr=60000", "x", "true")
	_, stats := g.ask("GET", "/api/tube/stats/Orders", "", "")
	for _, member := range []string{`"tubeName":"Orders"`, `"delayQueueSize":1`, `"failedQueueSize":0`} {
		if !strings.Contains(stats, member) {
			t.Errorf("stats: %s, want %s", stats, member)
		}
	}
	g.want("DELETE", "/api/job/delete", "tube=Orders&jid=2", "", "true")
	g.want("POST", "/api/job/produce", "tube=Orders&jid=3&ttr=60000", "x", "true")
	if _, got := g.ask("GET", "/api/job/consume", "tube=Orders", ""); !strings.Contains(got, `"id":"3"`) {
		t.Errorf("consume: %s", got)
	}
	g.want("PUT", "/api/job/failure", "tube=Orders&jid=3", "", "true")
	g.want("DELETE", "/api/job/discard", "tube=Orders&jid=3", "", "true")
	g.want("DELETE", "/api/job/discard", "tube=Orders&jid=3", "", "false")
	if _, all := g.ask("GET", "/api/tube/stats", "", ""); !strings.HasPrefix(all, `[{"dateTime":`) {
		t.Errorf("stats of all tubes: %s", all)
	}
	g.want("POST", "/api/tube/delete", "tube=Orders", "", "true")
	g.want("GET", "/api/tube/list", "", "", `[]`)
}

func TestGrapeRefusals(t *testing.T) {
	t.Parallel()
	_, addr := startGateway(t, "GRAPE")
	g := grape{t, addr}
	g.refused("POST", "/api/job/produce", "dtr=x", `{"code":2002,"desc":"job dtr is invalid"}`)
	g.refused("POST", "/api/job/produce", "ttr=-1", `{"code":2003,"desc":"job ttr is invalid"}`)
	g.refused("POST", "/api/job/produce", "tube=t", `{"code":2001,"desc":"job id is empty"}`)
	g.refused("GET", "/api/job/consume", "", `{"code":1001,"desc":"tube name is empty"}`)
	g.refused("GET", "/api/job/consume", "tube=1", `{"code":1002,"desc":"tube name not match ^([a-z]|[A-Z])(\\w|-)*"}`)
	g.refused("GET", "/api/job/consume", "tube=none", `{"code":1000,"desc":"unknown tube name 'none'"}`)
	long := url.QueryEscape(strings.Repeat("t", 65))
	g.refused("GET", "/api/job/consume", "tube="+long, `{"code":1003,"desc":"tube name great than 64"}`)
	if status, got := g.ask("GET", "/x", "", ""); status != 404 || got != `{"code":404,"desc":"invalid path:/x"}` {
		t.Errorf("an unknown path: %d %s", status, got)
	}
	if status, got := g.ask("GET", "/api/job/produce", "", ""); status != 405 || got != "" {
		t.Errorf("a wrong method: %d %q", status, got)
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	harness.Eventually(t, time.Minute, what, func() error {
		if !holds() {
			return errNotYet
		}
		return nil
	})
}

var errNotYet = errors.New("not yet")
