package lmstfy

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/gateway/importer/importtest"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/pulltest"
)

func le16(n int) []byte { return binary.LittleEndian.AppendUint16(nil, uint16(n)) }

func lmstfyText(s string) string { return string(le16(len(s))) + s }

// oldLmstfy is a Redis with the data of an lmstfy.
func oldLmstfy(t *testing.T) (*source, *redis.Client) {
	t.Helper()
	db := importtest.Redis(t)
	return newSource(db, db, poolList{"default"}, "default"), db
}

func TestJobsAreClaimedOnce(t *testing.T) {
	t.Parallel()
	l, db := oldLmstfy(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		id := "ready" + strconv.Itoa(i)
		must(db.Set(ctx, "j/shop/q/"+id, "body "+id, time.Hour).Err())
		must(db.LPush(ctx, "q/shop/q", string(le16(2))+lmstfyText(id)).Err())
	}
	must(db.LPush(ctx, "q/shop/q", string(le16(1))+lmstfyText("acked")).Err())
	const delay = 40 * 24 * time.Hour // so that the ids need all four bytes
	due := time.Now().Add(delay).Unix()
	timer := func(id string, tries int) {
		member := lmstfyText("shop") + lmstfyText("later") + string(le16(tries)) + lmstfyText(id)
		must(db.ZAdd(ctx, "timer_set", redis.Z{Score: float64(due), Member: member}).Err())
		must(db.Set(ctx, "j/shop/later/"+id, "\x00\xff", 0).Err())
	}
	delayed, attributes := harness.LmstfyID(delay), "1"+harness.LmstfyID(delay)
	timer(delayed, 5)
	timer(attributes, 1)
	timer("leased for the last time", 0)
	for _, delay := range []time.Duration{0, delay - 5*time.Second} { // their ttr expires when the others are due
		timer(harness.LmstfyID(delay), 3)
	}
	must(db.Set(ctx, "j/shop/later/"+attributes, `{"body":"aGk=","attributes":{"a":"b"}}`, 0).Err())

	must(db.LPush(ctx, "d/shop/q", "a", "b").Err())
	must(db.LPush(ctx, "d/shop/other", "c").Err())
	if n, err := l.Dead(ctx); n != 3 || err != nil {
		t.Errorf("%d dead letters, %v", n, err)
	}
	if n, err := l.Waiting(ctx); n != 9 || err != nil {
		t.Errorf("%d jobs are waiting, %v", n, err)
	}
	if n, err := l.Count(ctx); n != 5 || err != nil {
		t.Errorf("%d jobs would be imported, %v", n, err)
	}
	ready, err := l.Claim(ctx, 100)
	must(err)
	if len(ready) != 3 {
		t.Fatalf("claimed %d ready jobs, want 3", len(ready))
	}
	for i, job := range ready {
		p := job.Push
		if p.ID != "ready"+strconv.Itoa(i) || p.Topic != "lmstfy.shop.q" || string(p.Body) != "body "+p.ID ||
			p.MaxAttempts != 2 {
			t.Errorf("job %d is %+v", i, p)
		}
		if left := time.Until(p.ExpiresAt); left > time.Hour || left < 50*time.Minute {
			t.Errorf("it expires in %s, want about an hour", left)
		}
	}
	if again, err := l.Claim(ctx, 100); err != nil || len(again) != 2 {
		t.Fatalf("then %d jobs of the timer, %v", len(again), err)
	} else {
		byID := map[string]importer.Job{}
		for _, job := range again {
			byID[job.Push.ID] = job
		}
		if p := byID[delayed].Push; p.DueAt.Unix() != due || string(p.Body) != "\x00\xff" || !p.ExpiresAt.IsZero() {
			t.Errorf("the delayed job is %+v", p)
		}
		if p := byID[attributes].Push; string(p.Body) != "hi" || fmt.Sprint(p.Headers) != "map[a:b]" {
			t.Errorf("the job with attributes is %+v", p)
		}
	}
	left, err := l.Left(ctx)
	if err != nil || len(left) != 5 {
		t.Fatalf("%d claims are left, %v", len(left), err)
	}
	importtest.Drop(t, l, left)
	if keys, err := db.Keys(ctx, "*").Result(); err != nil || len(keys) != 7 {
		t.Errorf("keys at the end: %v %v, want the leased jobs, the dead letters and the number", keys, err)
	}
	if none, err := l.Claim(ctx, 100); len(none) != 0 || err != nil {
		t.Errorf("then %d jobs, %v", len(none), err)
	}
	due = time.Now().Unix() // and lmstfy has stopped
	timer(harness.LmstfyID(0), 2)
	if over, err := l.Claim(ctx, 100); len(over) != 1 || err != nil {
		t.Errorf("then %d jobs whose ttr is over, %v", len(over), err)
	}
}

// TestEachQueueIsReadOnce: there may be a queue for each job, and a scan reads the keys of all jobs.
func TestEachQueueIsReadOnce(t *testing.T) {
	t.Parallel()
	l, db := oldLmstfy(t)
	ctx := t.Context()
	const queues, delayed = 200, 100
	due := float64(time.Now().Add(time.Hour).Unix())
	_, err := db.Pipelined(ctx, func(c redis.Pipeliner) error {
		for n := range queues {
			id := fmt.Sprint("ready", n)
			c.Set(ctx, "j/shop/"+id+"/"+id, "x", 0)
			c.LPush(ctx, "q/shop/"+id, string(le16(1))+lmstfyText(id))
		}
		for range delayed {
			id := harness.LmstfyID(2 * time.Hour)
			c.Set(ctx, "j/shop/q/"+id, "x", 0)
			member := lmstfyText("shop") + lmstfyText("q") + string(le16(1)) + lmstfyText(id)
			c.ZAdd(ctx, "timer_set", redis.Z{Score: due, Member: member})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	claimed := 0
	for {
		jobs, err := l.Claim(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		if claimed += len(jobs); len(jobs) == 0 {
			break
		}
	}
	calls := func(command string) (n int) {
		stats := db.Info(ctx, "commandstats").Val()
		if _, line, found := strings.Cut(stats, "cmdstat_"+command+":calls="); found {
			_, _ = fmt.Sscan(strings.Split(line, ",")[0], &n)
		}
		return n
	}
	if scans, scripts := calls("scan"), calls("evalsha"); claimed != queues+delayed || scans > 3 ||
		scripts > 2*claimed+3 {
		t.Errorf("claimed %d of %d jobs by %d scans and %d scripts", claimed, queues+delayed, scans, scripts)
	}
}

// TestAnImportFollowsTokens that are created in lmstfy after it has begun.
func TestAnImportFollowsTokens(t *testing.T) {
	t.Parallel()
	l, db := oldLmstfy(t)
	q := pulltest.Start(t)
	tokens := NewTokens(q.Registry)
	var report importer.Report
	for n, text := range []string{"the-first-token-of-shop", "the-second-token-of-shop"} {
		if err := db.HSet(t.Context(), "tk/default/shop", text, "d").Err(); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if err := l.Prepare(t.Context(), &importer.Options{Registry: q.Registry}, &report); err != nil {
				t.Fatal(err)
			}
		}
		l.read = l.read.Add(-tokensEvery)
		if _, err := l.Claim(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if found, err := tokens.Find("default", "shop", text); err != nil || found == nil || report.Tokens != n+1 {
			t.Errorf("%s: %v %v, reported %d", text, found, err, report.Tokens)
		}
	}
}

func TestTokensAreRead(t *testing.T) {
	t.Parallel()
	l, _ := oldLmstfy(t)
	db := importtest.Redis(t)
	l.admin = db
	if err := db.HSet(t.Context(), "tk/default/shop", "secret", "the shop").Err(); err != nil {
		t.Fatal(err)
	}
	limit := `{"read":1,"write":2,"interval":3}`
	if err := db.HSet(t.Context(), "__throttler_keys__", "default/shop/secret", limit).Err(); err != nil {
		t.Fatal(err)
	}
	list, err := l.tokens(t.Context())
	want := oldToken{"shop", "secret", "the shop", Limit{1, 2, 3}}
	if err != nil || len(list) != 1 || list[0] != want {
		t.Errorf("%+v %v, want %+v", list, err, want)
	}
}
