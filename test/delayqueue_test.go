package test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/harness"
)

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
	d.want("/pop", `{"topic":"other,Order"}`, popped)
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

// delayQueueJob is a job as delay-queue stores it, in msgpack.
func delayQueueJob(id string, due time.Time) string {
	text := func(s string) string { return "\xda" + string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s }
	number := func(n int64) string { return "\xd3" + string(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	return "\x85" + text("Topic") + text("q") + text("Id") + text(id) + text("Delay") + number(due.Unix()) +
		text("TTR") + number(60) + text("Body") + text("body")
}

func oldDelayQueue(t *testing.T) *oldSystem {
	old, _ := delayQueueOn(t)
	return old
}

func delayQueueOn(t *testing.T) (*oldSystem, *redis.Client) {
	url, db := oldRedisServer(t)
	return &oldSystem{
		args: []string{"--redis", url}, topic: "delayqueue.q", number: itself,
		fill: filled(t, db, func(c redis.Pipeliner, n int, id string, due time.Time) {
			c.Set(ctx, id, delayQueueJob(id, due), 0)
			if n%4 == 0 {
				c.RPush(ctx, "dq_queue_q", id)
				return
			}
			c.ZAdd(ctx, fmt.Sprint("dq_bucket_", 1+n%3), redis.Z{Score: float64(due.Unix()), Member: id})
		}),
		consume: func() string {
			id := db.LPop(ctx, "dq_queue_q").Val()
			if id == "" || db.Exists(ctx, id).Val() == 0 { // as delay-queue does: pop, read, lease, finish
				return ""
			}
			db.ZAdd(ctx, "dq_bucket_1", redis.Z{Score: float64(time.Now().Unix() + 60), Member: id})
			time.Sleep(time.Millisecond)
			if db.Del(ctx, id).Val() == 0 {
				t.Errorf("the job %s was imported while a consumer had it", id)
			}
			db.ZRem(ctx, "dq_bucket_1", id)
			return id
		},
		left: func() int64 {
			keys, err := db.Keys(ctx, "*").Result()
			if err != nil {
				return -1
			}
			return int64(len(keys)) - 1 // the number of the last claim remains
		},
	}, db
}

func movingDelayQueue(t *testing.T, done *consumed) (*installation, *moving) {
	old, db := delayQueueOn(t)
	w, addr := startGateway(t, "DELAYQUEUE")
	i := &installation{w, harness.StartEndpoint(t)}
	gateway := delayQueue{t, addr}
	return i, &moving{
		args: old.args, left: old.left,
		add: func(id string) {
			due := time.Now()
			db.Set(ctx, id, delayQueueJob(id, due), 0)
			db.ZAdd(ctx, "dq_bucket_1", redis.Z{Score: float64(due.Unix()), Member: id})
		},
		gateway: func(id string) error {
			return harness.Equal("answer",
				gateway.post("/push", `{"topic":"q","id":"`+id+`","delay":1,"ttr":60,"body":"x"}`), delayQueueAdded)
		},
		work: func() { // a timer copies the head of its bucket, then removes it
			due, _ := db.ZRange(ctx, "dq_bucket_1", 0, 0).Result()
			if len(due) == 1 && db.Exists(ctx, due[0]).Val() == 1 &&
				db.ZScore(ctx, "dq_bucket_1", due[0]).Val() <= float64(time.Now().Unix()) {
				db.RPush(ctx, "dq_queue_q", due[0])
				db.ZRem(ctx, "dq_bucket_1", due[0])
			}
			done.addOld(old.consume())
		},
		drain: func(stop <-chan struct{}) { done.drain(i, old, stop) },
	}
}
