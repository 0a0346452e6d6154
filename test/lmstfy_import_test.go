package test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/harness"
)

func le16(s string) string {
	return string(binary.LittleEndian.AppendUint16(nil, uint16(len(s)))) + s
}

func oldLmstfy(t *testing.T) *oldSystem {
	url, db := oldRedisServer(t)
	timed := func(due time.Time, tries, id string) redis.Z {
		return redis.Z{Score: float64(due.Unix()), Member: le16("shop") + le16("q") + tries + le16(id)}
	}
	return &oldSystem{
		args: []string{"--redis", url, "--admin-redis", url}, topic: "lmstfy.shop.q", number: func(_, body string) string { return body },
		fill: filled(t, db, func(c redis.Pipeliner, n int, number string, due time.Time) {
			id := harness.LmstfyID(time.Until(due).Round(time.Hour))
			c.Set(ctx, "j/shop/q/"+id, number, time.Hour)
			if n%2 == 0 {
				c.LPush(ctx, "q/shop/q", "\x03\x00"+le16(id))
				return
			}
			c.ZAdd(ctx, "timer_set", timed(due, "\x03\x00", id))
		}),
		consume: func() string { // as lmstfy does: pop, lease, read, acknowledge
			member := db.RPop(ctx, "q/shop/q").Val()
			if len(member) < 4 {
				return ""
			}
			id := member[4:]
			db.ZAdd(ctx, "timer_set", timed(time.Now().Add(time.Minute), "\x02\x00", id))
			body := db.Get(ctx, "j/shop/q/"+id).Val()
			time.Sleep(20 * time.Millisecond) // time to work: an import meets the lease
			if db.Del(ctx, "j/shop/q/"+id).Val() == 0 {
				t.Errorf("the job %s was imported while a consumer had it", body)
			}
			return body
		},
		left: func() int64 { // the timer also has acknowledged jobs
			keys, err := db.Keys(ctx, "j/*").Result()
			if err != nil {
				return -1
			}
			return int64(len(keys)) + db.HLen(ctx, "wakecall_claims").Val()
		},
	}
}

// TestImportOfLmstfy imports a token and the waiting jobs.
func TestImportOfLmstfy(t *testing.T) {
	t.Parallel()
	l := startLmstfy(t)
	old := harness.StartRedis(t, harness.RedisOptions{})
	db := redis.NewClient(&redis.Options{Addr: old.Addr()})
	defer db.Close()
	const token, jobs = "a-token-of-the-old-lmstfy", 1500
	admin := redis.NewClient(&redis.Options{Addr: old.Addr(), DB: 1})
	defer admin.Close()
	must(t, admin.HSet(t.Context(), "tk/default/old", token, "of old").Err())
	must(t, admin.HSet(t.Context(), "__throttler_keys__", "default/old/"+token,
		`{"read":5,"write":5,"interval":9}`).Err())
	_, err := db.Pipelined(t.Context(), func(c redis.Pipeliner) error {
		for i := range jobs {
			id := fmt.Sprintf("01ARZ3NDEKTSV4RRFF%08d", i)
			c.Set(t.Context(), "j/old/Q/"+id, "body "+id, time.Hour)
			c.LPush(t.Context(), "q/old/Q", "\x02\x00\x1a\x00"+id)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	from := "redis://" + old.Addr()
	if code, out := l.w.Run("import", "lmstfy", "--redis", from, "--dry-run"); code == 0 ||
		!strings.Contains(out, "--admin-redis is required") {
		t.Fatalf("dry run: %d %s, want an error that names --admin-redis", code, out)
	}
	code, out := l.w.Run("import", "lmstfy", "--redis", from, "--admin-redis", from, "--dry-run")
	if code != 0 || !strings.Contains(out, "1500") || !strings.Contains(out, "no tokens of the pool") {
		t.Fatalf("dry run: %d %s, want a hint that there are no tokens", code, out)
	}
	code, out = l.w.Run("import", "lmstfy", "--redis", from, "--admin-redis", from+"/1", "--dry-run", "-o", "json")
	if code != 0 || !strings.Contains(strings.ReplaceAll(out, " ", ""), `"tokens":1`) {
		t.Fatalf("dry run: %d %s, want one token", code, out)
	}
	if code, out := l.w.Run("import", "lmstfy", "--redis", from, "--admin-redis", from+"/1"); code != 0 {
		t.Fatalf("import of the tokens: %d %s", code, out)
	}
	header := map[string]string{"X-Token": token}
	until(t, "the old token is known", func() bool {
		return l.ask(l.api, "GET", "/api/old/Q/peek", "", header).status == 200
	})
	if size := l.ask(l.api, "GET", "/api/old/Q/size", "", header); size.value["size"] != float64(jobs) {
		t.Errorf("size: %s", size.text)
	}
	first := l.ask(l.api, "GET", "/api/old/Q", "", header).must(t, 200).value
	if first["job_id"] != "01ARZ3NDEKTSV4RRFF00000000" || first["remain_tries"] != 1.0 {
		t.Errorf("the first job is %v", first)
	}
	if left, err := db.Keys(t.Context(), "*").Result(); err != nil || len(left) != 1 {
		t.Errorf("left in the old Redis: %v %v, want the importer's number", left, err)
	}
	limit := "/token/old/" + token + "/limit"
	if is := l.ask(l.admin, "GET", limit, "", nil); is.text != `{"read":5,"write":5,"interval":9}` {
		t.Errorf("the token's limit is %s", is.text)
	}
	const changed = `{"read":7,"write":7,"interval":9}`
	l.ask(l.admin, "PUT", limit, changed, nil).must(t, 200)
	must(t, admin.HSet(t.Context(), "tk/default/old", "a-second-token-of-the-old", "of old").Err())
	if code, out := l.w.Run("import", "lmstfy", "--redis", from, "--admin-redis", from+"/1"); code != 0 {
		t.Fatalf("import of the tokens again: %d %s", code, out)
	}
	until(t, "the second token is known", func() bool {
		return strings.Contains(l.ask(l.admin, "GET", "/token/old", "", nil).text, "a-second-token")
	})
	if is := l.ask(l.admin, "GET", limit, "", nil); is.text != changed {
		t.Errorf("a limit that was changed here is %s", is.text)
	}
}

func movingLmstfy(t *testing.T, done *consumed) (*installation, *moving) {
	old, gateway := oldLmstfy(t), startLmstfy(t)
	db := patient(strings.TrimPrefix(old.args[1], "redis://"))
	t.Cleanup(func() { _ = db.Close() })
	return movingPull(gateway.w, old, done, func(id string) {
		db.Set(ctx, "j/shop/q/"+id, id, time.Hour)
		db.LPush(ctx, "q/shop/q", "\x03\x00"+le16(id))
	}, func(id string) error {
		return harness.Equal("status", gateway.do("PUT", "q", id).status, 201)
	})
}
