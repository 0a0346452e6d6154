package test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/harness"
)

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
	g.refused("POST", "/api/job/produce", "ttr=", `{"code":2003,"desc":"job ttr is invalid"}`)
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

func oldGrape(t *testing.T) *oldSystem {
	url, db := oldRedisServer(t)
	const delay, retain = "tube:T:queue:delay", "tube:T:queue:retain"
	return &oldSystem{
		args: []string{"--redis", url}, topic: "grape.~t", number: itself,
		fill: filled(t, db, func(c redis.Pipeliner, _ int, id string, due time.Time) {
			c.SAdd(ctx, "tube:set", "T")
			c.HSet(ctx, "tube:T:job:"+id, "id", id, "dtr", 0, "ttr", 60000, "noe", 0, "data", "body")
			c.ZAdd(ctx, delay, redis.Z{Score: float64(due.UnixMilli()), Member: id})
		}),
		consume: func() string { // as Grape does: with a lock, in steps
			const lock = "tube:T:lock:consume"
			if !db.SetNX(ctx, lock, "consumer", 10*time.Second).Val() {
				return ""
			}
			defer db.Del(ctx, lock)
			due := db.Do(ctx, "ZRANGEBYSCORE", delay, "-inf", time.Now().UnixMilli(), "LIMIT", 0, 1)
			ids, _ := due.StringSlice()
			if len(ids) == 0 || db.Exists(ctx, "tube:T:job:"+ids[0]).Val() == 0 {
				return ""
			}
			time.Sleep(time.Millisecond)
			db.ZAdd(ctx, retain, redis.Z{Score: float64(time.Now().Add(time.Minute).UnixMilli()), Member: ids[0]})
			db.ZRem(ctx, delay, ids[0])
			if db.ZRem(ctx, retain, ids[0]).Val() == 0 || db.Del(ctx, "tube:T:job:"+ids[0]).Val() == 0 {
				t.Errorf("the job %s was imported while a consumer had it", ids[0])
			}
			return ids[0]
		},
		left: func() int64 { return db.ZCard(ctx, delay).Val() + db.HLen(ctx, "wakecall:claims").Val() },
	}
}

func movingGrape(t *testing.T, done *consumed) (*installation, *moving) {
	old := oldGrape(t)
	w, addr := startGateway(t, "GRAPE")
	db := patient(strings.TrimPrefix(old.args[1], "redis://"))
	t.Cleanup(func() { _ = db.Close() })
	return movingPull(w, old, done, func(id string) {
		db.SAdd(ctx, "tube:set", "T")
		db.HSet(ctx, "tube:T:job:"+id, "id", id, "dtr", 0, "ttr", 60000, "noe", 0, "data", id)
		db.ZAdd(ctx, "tube:T:queue:delay", redis.Z{Score: float64(time.Now().UnixMilli()), Member: id})
	}, func(id string) error {
		// until the import has created the tube
		for deadline := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) {
			status, _ := grape{t, addr}.ask("POST", "/api/job/produce", "tube=T&ttr=60000&jid="+id, id)
			if status == http.StatusOK || time.Now().After(deadline) {
				return harness.Equal("status", status, http.StatusOK)
			}
		}
	})
}
