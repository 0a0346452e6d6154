package delayqueue

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/pulltest"
	"github.com/wakecall/wakecall/test/wait"
)

const pushOne = `{"id":"1","topic":"t","delay":1,"ttr":600,"body":"x"}`

// TestAFailureNamesWhatFailed, in delay-queue's words, and always with status 200.
func TestAFailureNamesWhatFailed(t *testing.T) {
	c := newClient(t)
	c.q.Redis.Shutdown()
	for _, x := range [][3]string{
		{"/push", pushOne, "添加失败"}, {"/pop", `{"topic":"t"}`, "获取Job失败"}, {"/finish", `{"id":"1"}`, "删除失败"},
		{"/delete", `{"id":"1"}`, "删除失败"}, {"/get", `{"id":"1"}`, "查询失败"},
	} {
		c.want(x[0], x[1], refusal(x[2]))
	}
	for command, text := range map[string]string{
		`"add","topic":"t","id":"1","delay":1,"TTR":1`: "添加失败", `"pop","topic":"t"`: "获取Job失败",
		`"finish","id":"1"`: "删除失败",
		`"delete","id":"1"`: "删除失败",
	} {
		c.want("/command", `{"command":`+command+`}`, `{"success":false,"error":"`+text+`"}`)
	}
}

// TestAFullRedisRefusesPushesOnly: an older job with the id stays, and can be popped and finished.
func TestAFullRedisRefusesPushesOnly(t *testing.T) {
	c := newClient(t)
	c.want("/push", pushOne, addedAnswer)
	c.q.Redis.ConfigSet("maxmemory", "1")
	c.want("/push", strings.Replace(pushOne, `"x"`, `"new"`, 1), refusal("添加失败"))
	c.want("/push", strings.Replace(pushOne, `"t"`, `"other"`, 1), refusal("添加失败"))
	wait.For(t, "a pop", func() bool {
		return c.ask("POST", "/pop", `{"topic":"t"}`) == `{"code":0,"message":"操作成功","data":{"id":"1","body":"x"}}`
	})
	c.want("/finish", `{"id":"1"}`, okAnswer)
	c.want("/get", `{"id":"1"}`, okAnswer)
}

// brokenWriter is the connection of a disconnected client.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("the client has left") }

// TestWhatReachesNoClientIsReadyAgain without waiting for its ttr.
func TestWhatReachesNoClientIsReadyAgain(t *testing.T) {
	c := newClient(t)
	c.want("/push", pushOne, addedAnswer)
	state := func() store.State {
		job, err := c.q.Get(t.Context(), topicOf("t"), "1")
		if err != nil {
			t.Fatal(err)
		}
		return job.State
	}
	wait.For(t, "the job is due", func() bool { return state() == store.Ready })
	for path, body := range map[string]string{"/pop": `{"topic":"t"}`, "/command": `{"command":"pop","topic":"t"}`} {
		c.h.ServeHTTP(brokenWriter{httptest.NewRecorder()},
			httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		if s := state(); s != store.Ready {
			t.Errorf("after a %s whose answer is not read, the job is %s", path, s)
		}
	}
	job, err := c.q.Get(t.Context(), topicOf("t"), "1")
	if err != nil || job.Attempts != 0 {
		t.Errorf("%+v %v, want no attempt", job, err)
	}
}

// TestAnIDMovesWithItsLastPush: the worker that has the earlier job may finish it, which ends the later one.
func TestAnIDMovesWithItsLastPush(t *testing.T) {
	c := newClient(t)
	c.want("/push", pushOne, addedAnswer)
	wait.For(t, "a pop", func() bool { return c.ask("POST", "/pop", `{"topic":"t"}`) != okAnswer })
	c.want("/push", `{"id":"1","topic":"T","delay":3600,"ttr":60,"body":"later"}`, addedAnswer)
	if got := c.ask("POST", "/get", `{"id":"1"}`); !strings.Contains(got, `"topic":"T"`) ||
		!strings.Contains(got, "later") {
		t.Errorf("get: %s", got)
	}
	if n, err := c.q.Stats(t.Context(), []string{topicOf("t")}); err != nil || n[topicOf("t")].Jobs() != 0 {
		t.Errorf("the earlier topic has %+v, %v", n, err)
	}
	c.want("/finish", `{"id":" 1 "}`, okAnswer)
	c.want("/get", `{"id":"1"}`, okAnswer)
}

// TestWithOneShardOfTwoWorkGoesOn: only the jobs of the other shard wait, and no pop fails. Pushes are refused, because
// the job that they would replace may be in that shard.
func TestWithOneShardOfTwoWorkGoesOn(t *testing.T) {
	c := newClient(t)
	down := c.q.AddShard(t)
	var id string // the id of a job in the other shard
	for n := 0; id == ""; n++ {
		r := c.q.Push(t.Context(), store.Push{Topic: topicOf("T"), ID: fmt.Sprint(n), Body: []byte("x")})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if r.Job.Shard == "a" {
			id = r.Job.ID
		}
	}
	down.Shutdown()
	c.want("/push", pushOne, refusal("添加失败"))
	c.want("/pop", `{"topic":"T"}`, `{"code":0,"message":"操作成功","data":{"id":"`+id+`","body":"x"}}`)
	c.want("/pop", `{"topic":"T"}`, okAnswer)
	if got := c.ask("POST", "/command", `{"command":"pop","topic":"T"}`); got != `{"success":true}` {
		t.Error(got)
	}
	// knows no topics yet
	c.h = New(pulltest.Endpoint(t, "delayqueue"), c.q, c.q.Hub, c.q.Registry.Snapshot, 64).handler()
	c.want("/finish", `{"id":"`+id+`"}`, okAnswer)
	if _, err := c.q.Get(t.Context(), topicOf("T"), id); err == nil {
		t.Error("a finished job exists")
	}
	c.want("/finish", `{"id":"none"}`, refusal("删除失败"))
}
