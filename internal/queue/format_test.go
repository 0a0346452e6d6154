package queue

import (
	"bufio"
	"context"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/wait"
)

// testdata/format-N.redis is what a version of Wakecall that wrote records of format N stored in Redis, one command a
// line. Such a file is written once, by WAKECALL_WRITE_FORMAT=N go test -run TestWriteStoredFormat, when N is the
// newest format, and never again. (Format 0 was written with Redis's clock in 2025, so it is in the past wherever the
// test runs.)

const fixtureTopic = "old.jobs"

// farAway is the due time of the job that waits in a page.
var farAway = time.Date(2200, 1, 2, 3, 4, 5, 678e6, time.UTC)

// storedJobs are the jobs of a fixture: in every state, with every field that a record can have.
func storedJobs() []Push {
	jobs := []Push{
		{ID: "near", Delay: 2 * time.Second},
		{ID: "far", DueAt: farAway, Body: []byte(strings.Repeat("long ", 300)), ContentType: "text/plain",
			TTR: 90 * time.Second, MaxAttempts: 7, Priority: High},
		{ID: "ready", Body: []byte{0, 1, 0xff, '\n', '"'}, ContentType: "application/octet-stream"},
		{ID: "ready-low", Priority: Low},
		{ID: "ready ünïcode", Body: []byte(`{"own":"limits"}`), TTR: 5 * time.Second, MaxAttempts: 3, Priority: High},
		{ID: "running", MaxAttempts: 4},
		{ID: "retrying", MaxAttempts: 9, Body: []byte(strings.Repeat("x", longBody+1))},
		{ID: "snoozing"},
		{ID: "dead", ContentType: "text/plain"},
		{ID: "delivered"},
		{ID: "deleted", Delay: time.Hour},
	}
	for i := range jobs {
		p := &jobs[i]
		p.Topic = fixtureTopic
		if p.Priority == High && p.TTR == 0 {
			p.Priority = Normal
		}
		if p.Body == nil {
			p.Body = []byte(`{"id":"` + p.ID + `"}`)
		}
	}
	return jobs
}

// mayWrite skips a test that writes a fixture unless that was requested, and fails it if the file exists.
func mayWrite(t *testing.T, told, path string) {
	t.Helper()
	if told == "" {
		t.Skip("writes a fixture only on request")
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatalf("%s exists: the data of an older version cannot be written again", path)
	}
}

func TestWriteStoredFormat(t *testing.T) {
	n := os.Getenv("WAKECALL_WRITE_FORMAT")
	path := filepath.Join("testdata", "format-"+n+".redis")
	mayWrite(t, n, path)
	f := newFixture(t)
	if err := f.q.SetTopics(f.ctx, slices.Values([]TopicConf{{Name: fixtureTopic, TTR: 10 * time.Second,
		MaxAttempts: 5}})); err != nil {
		t.Fatal(err)
	}
	jobs := storedJobs()
	byID := map[string]Push{}
	for _, p := range jobs {
		byID[p.ID] = p
	}
	store := func(ids ...string) {
		for _, id := range ids {
			p := byID[id]
			results, _ := f.s.storeAll(0, Memory, []Push{p}, wait.Limit) // Push would refuse a due time in 2200
			if results[0].Err != nil {
				t.Fatal(results[0].Err)
			}
		}
	}
	attempt := func(s *Settlement) {
		s.Delay, s.Attempt.Error, s.Attempt.Answer, s.Attempt.TookMS = time.Hour, "the endpoint says no", "<no>", 12.5
	}
	store("retrying")
	f.settle(Retry, attempt, f.reserve(1)...)
	store("snoozing")
	f.settle(Snooze, attempt, f.reserve(1)...)
	store("dead")
	f.settle(Retry, func(s *Settlement) { attempt(s); s.Delay = 0 }, f.reserve(1)...)
	eventually(t, "the retry is due", func() bool { return f.advance().Moved == 1 })
	f.settle(Bury, func(s *Settlement) { attempt(s); s.Reason = "attempts" }, f.reserve(1)...)
	store("delivered")
	f.settle(Done, nil, f.reserve(1)...)
	store("running")
	f.reserve(1)
	store("deleted", "near", "far", "ready", "ready-low", "ready ünïcode")
	if err := f.q.Delete(f.ctx, fixtureTopic, "deleted"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(f.dump()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dump returns the contents of Redis as commands, without keys that expire within minutes.
func (f *fixture) dump() string {
	f.Helper()
	keys := f.s.client.Keys(f.ctx, "*").Val()
	slices.Sort(keys)
	var b strings.Builder
	line := func(args ...string) {
		for i, a := range args {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(strconv.QuoteToASCII(latin1(a)))
		}
		b.WriteByte('\n')
	}
	for _, key := range keys {
		if f.s.client.TTL(f.ctx, key).Val() > 0 {
			continue
		}
		switch kind := f.s.client.Type(f.ctx, key).Val(); kind {
		case "string":
			line("SET", key, f.s.client.Get(f.ctx, key).Val())
		case "list":
			line(append([]string{"RPUSH", key}, f.s.client.LRange(f.ctx, key, 0, -1).Val()...)...)
		case "hash":
			all := f.s.client.HGetAll(f.ctx, key).Val()
			args := []string{"HSET", key}
			for _, field := range slices.Sorted(maps.Keys(all)) {
				args = append(args, field, all[field])
			}
			line(args...)
		case "zset":
			args := []string{"ZADD", key}
			for _, z := range f.s.client.ZRangeWithScores(f.ctx, key, 0, -1).Val() {
				args = append(args, strconv.FormatFloat(z.Score, 'f', -1, 64), z.Member.(string))
			}
			line(args...)
		default:
			f.Fatalf("%s is a %s", key, kind)
		}
	}
	return b.String()
}

// latin1 has one rune for each byte, so that quoting it shows the bytes.
func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

func bytesOf(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

// newStored is a fixture whose Redis has the contents of a file.
func newStored(t *testing.T, path string) *fixture {
	t.Helper()
	url, _ := startRedis(t)
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: strings.TrimPrefix(url, "unix://")})
	defer func() { _ = c.Close() }()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var args []any
		for rest := lines.Text(); rest != ""; rest = strings.TrimPrefix(rest, " ") {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatalf("%s: %v in %.80s", path, err, rest)
			}
			text, _ := strconv.Unquote(quoted)
			args, rest = append(args, bytesOf(text)), rest[len(quoted):]
		}
		if err := c.Do(context.Background(), args...).Err(); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return fixtureOn(t, url, Options{})
}

// eachFormat runs a test on the stored data of each format's version.
func eachFormat(t *testing.T, test func(*fixture)) {
	files, err := filepath.Glob("testdata/format-*.redis")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no fixtures (%v)", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { test(newStored(t, file)) })
	}
}

var storedStates = map[string]State{
	"near": Delayed, "far": Delayed, "ready": Ready, "ready-low": Ready, "ready ünïcode": Ready, "running": Running,
	"retrying": Delayed, "snoozing": Delayed, "dead": Dead,
}

// same compares a job with its push.
func (f *fixture) same(j *Job, p Push) {
	f.Helper()
	if j.Topic != p.Topic || j.ID != p.ID || string(j.Body) != string(p.Body) || j.ContentType != p.ContentType ||
		j.Priority != p.Priority ||
		j.TTR != p.TTR || j.MaxAttempts != p.MaxAttempts {
		f.Errorf("%s: got %+v, want %+v", p.ID, j, p)
	}
	if j.CreatedAt.Year() < 2020 || j.CreatedAt.After(time.Now()) {
		f.Errorf("%s: created %s", p.ID, j.CreatedAt)
	}
}

func storedPushes() map[string]Push {
	m := map[string]Push{}
	for _, p := range storedJobs() {
		if storedStates[p.ID] != "" {
			m[p.ID] = p
		}
	}
	return m
}

func TestStoredFormatsAreFoundAndListed(t *testing.T) {
	eachFormat(t, func(f *fixture) {
		for id, p := range storedPushes() {
			j := f.get(fixtureTopic, id)
			f.same(j, p)
			if j.State != storedStates[id] {
				f.Errorf("%s is %s, want %s", id, j.State, storedStates[id])
			}
		}
		f.gone(fixtureTopic, "delivered")
		f.gone(fixtureTopic, "deleted")
		f.stats(fixtureTopic, 4, 3, 1, 1)
		found := map[string]State{}
		for _, state := range []State{Delayed, Ready, Running, Dead} {
			jobs, next, err := f.q.List(f.ctx, fixtureTopic, state, "", 100)
			if err != nil || next != "" {
				f.Fatalf("list %s: %v, next %q", state, err, next)
			}
			for _, j := range jobs {
				found[j.ID] = j.State
			}
		}
		if !reflect.DeepEqual(found, storedStates) {
			f.Errorf("listed: %v, want %v", found, storedStates)
		}

		history := []Attempt{{N: 1, StartedAt: 1, TookMS: 12.5, Status: 500, Error: "the endpoint says no",
			Answer: "<no>"}}
		if j := f.get(fixtureTopic, "retrying"); j.Attempts != 1 || !reflect.DeepEqual(j.History, history) ||
			!j.NextAt.After(j.DueAt.Add(59*time.Minute)) {
			f.Errorf("retrying: %+v", j)
		}
		if j := f.get(fixtureTopic, "snoozing"); j.Attempts != 0 || j.Snoozes != 1 ||
			!reflect.DeepEqual(j.History, history) {
			f.Errorf("snoozing: %+v", j)
		}
		if j := f.get(fixtureTopic, "dead"); j.Attempts != 2 || j.DeadReason != "attempts" || len(j.History) != 2 ||
			j.DeadAt.IsZero() {
			f.Errorf("dead: %+v", j)
		}
		if j := f.get(fixtureTopic, "far"); !j.DueAt.Equal(farAway) || !j.NextAt.Equal(farAway) {
			f.Errorf("far: %+v", j)
		}
	})
}

func TestStoredFormatsAreChanged(t *testing.T) {
	eachFormat(t, func(f *fixture) {
		body, low, delay := []byte("changed"), Low, 2*time.Hour
		for id, p := range storedPushes() {
			before := f.get(fixtureTopic, id)
			j, err := f.q.Change(f.ctx, fixtureTopic, id, Change{Body: &body, Priority: &low, Delay: &delay})
			if s := storedStates[id]; s == Running || s == Dead {
				if err == nil {
					f.Errorf("%s was changed although it is %s", id, s)
				}
				continue
			}
			if err != nil {
				f.Errorf("change %s: %v", id, err)
				continue
			}
			p.Body, p.Priority = body, low
			f.same(j, p)
			if j.State != Delayed || j.Attempts != before.Attempts || !reflect.DeepEqual(j.History, before.History) ||
				!j.CreatedAt.Equal(before.CreatedAt) {
				f.Errorf("%s changed from %+v to %+v", id, before, j)
			}
			if j, err = f.q.RunNow(f.ctx, fixtureTopic, id); err != nil || j.State != Ready {
				f.Errorf("run %s: %+v, %v", id, j, err)
			}
		}
		f.stats(fixtureTopic, 0, 7, 1, 1)
	})
}

// deliverAll delivers all jobs but those that are due in 2200.
func (f *fixture) deliverAll() map[string]*Lease {
	f.Helper()
	leases := map[string]*Lease{}
	eventually(f, "everything is delivered", func() bool {
		for f.advance().More {
		}
		for _, l := range f.reserve(10) {
			leases[l.ID] = l
			f.settle(Done, nil, l)
		}
		return f.q.mustStats(f).Ready+f.q.mustStats(f).Running == 0
	})
	return leases
}

func (q *Queue) mustStats(f *fixture) Stats {
	m, err := q.Stats(f.ctx, []string{fixtureTopic})
	if err != nil {
		f.Fatal(err)
	}
	return m[fixtureTopic]
}

func TestStoredFormatsAreDelivered(t *testing.T) {
	eachFormat(t, func(f *fixture) {
		attempts := map[string]int{}
		for id, s := range storedStates {
			attempts[id] = f.get(fixtureTopic, id).Attempts
			switch s {
			case Dead:
				attempts[id] = 0 // attempts start again
			case Running:
				attempts[id]++ // its lease ended
			}
			if id == "dead" || id == "far" || id == "retrying" || id == "snoozing" {
				if _, err := f.q.RunNow(f.ctx, fixtureTopic, id); err != nil {
					f.Fatalf("run %s: %v", id, err)
				}
			}
		}
		leases := f.deliverAll()
		for id, p := range storedPushes() {
			l := leases[id]
			if l == nil {
				f.Errorf("%s was not delivered", id)
				continue
			}
			f.same(&l.Job, p)
			if l.Attempts != attempts[id] {
				f.Errorf("%s: %d attempts were made, want %d", id, l.Attempts, attempts[id])
			}
			f.gone(fixtureTopic, id)
		}
		f.stats(fixtureTopic, 0, 0, 0, 0)
		f.balanced(1+9, 1) // and those that ended earlier
		f.clean()
	})
}

// balanced checks that the topic's totals account for all jobs.
func (f *fixture) balanced(delivered, deleted int64) {
	f.Helper()
	t := f.s.client.HGetAll(f.ctx, prefix(0)+"t:"+fixtureTopic).Val()
	n := func(what string) int64 { v, _ := strconv.ParseInt(t[what], 10, 64); return v }
	if n("p") != 11 || n("d") != delivered || n("x")+n("o") != deleted {
		f.Errorf("of %d jobs, %d were delivered and %d deleted; want 11, %d, %d", n("p"), n("d"), n("x")+n("o"),
			delivered, deleted)
	}
}

func TestStoredFormatsAreDeleted(t *testing.T) {
	eachFormat(t, func(f *fixture) {
		for id := range storedStates {
			if err := f.q.Delete(f.ctx, fixtureTopic, id); err != nil {
				f.Errorf("delete %s: %v", id, err)
			}
			f.gone(fixtureTopic, id)
		}
		f.stats(fixtureTopic, 0, 0, 0, 0)
		for f.advance().More {
		}
		f.reserve(10)
		f.balanced(1, 10)
		f.clean()
	})
}

func TestStoredFormatsAreDropped(t *testing.T) {
	eachFormat(t, func(f *fixture) {
		if n, err := f.q.DropTopic(f.ctx, fixtureTopic); n != len(storedStates) || err != nil {
			f.Errorf("dropped %d jobs of %d: %v", n, len(storedStates), err)
		}
		f.advance()
		f.clean()
	})
}
