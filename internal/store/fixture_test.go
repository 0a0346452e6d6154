package store_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/leaks"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) {
	// Four models of the queue would take half of the package's time; the seeds differ from run to run. A -rapid.checks
	// on the command line takes precedence: flags are parsed later.
	_ = flag.Set("rapid.checks", "40") // a -rapid.checks on the command line counts: flags are parsed later
	leaks.Main(m)
}

// startRedis runs a private redis-server and returns its URL. Tests that use one run in parallel.
func startRedis(t testing.TB, args ...string) (url string, server *redistest.Server) {
	t.Helper()
	inParallel(t)
	server = redistest.Start(t, redistest.Options{Quick: true, Args: args})
	adopt(t, server.Client())
	return server.URL(), server
}

// adopt opens a standalone server for the scripts, as after the hosts compared it with their journals.
func adopt(t testing.TB, c redis.Cmdable) {
	t.Helper()
	id := store.ParseInfo(c.Info(context.Background(), "server").Val())["run_id"]
	ctx := context.Background()
	err := cmp.Or(c.Set(ctx, store.Prefix(0)+"format", store.Format, 0).Err(),
		c.HSet(ctx, store.Prefix(0)+"cmp", "name", "adopted", "run", id, "upto", 0, "base", 0).Err())
	if err != nil || id == "" {
		t.Fatalf("adopt the server %q: %v", id, err)
	}
}

// adoptAll is adopt for any deployment.
func adoptAll(ctx context.Context, s *store.Shard) error {
	if err := queuetest.Open(ctx, s); err != nil {
		return err
	}
	for _, n := range s.Buckets() {
		n.DownForTest().Store(false)
	}
	return nil
}

// flush empties the server.
func (f *fixture) flush() {
	f.Helper()
	if err := f.s.Redis().FlushAll(f.ctx).Err(); err != nil {
		f.Fatal(err)
	}
	adopt(f, f.s.Redis())
}

func inParallel(t testing.TB) {
	if test, ok := t.(*testing.T); ok {
		if _, marked := parallel.LoadOrStore(t, true); !marked {
			test.Parallel()
		}
	}
}

type fixture struct {
	*testing.T
	ctx context.Context
	q   *queue.Queue
	s   *store.Shard
	b   *store.Bucket // of s
	n   int
}

func newFixture(t *testing.T) *fixture {
	url, _ := startRedis(t)
	return fixtureOn(t, url, store.Options{})
}

// open makes a queue whose commands may take as long as they do on a busy machine, unless o has a limit.
func open(o store.Options) *queue.Queue {
	if o.Timeout == 0 {
		o.Timeout = wait.Limit
	}
	return queue.Open(o)
}

// fixtureOn is a fixture on a Redis that is already running.
func fixtureOn(t *testing.T, url string, o store.Options) *fixture {
	t.Helper()
	q := open(o)
	t.Cleanup(func() { _ = q.Close() })
	if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: url, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	return &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards.All()[0], b: q.Shards.Buckets()[0]}
}

// loadScripts makes the servers know the scripts that change jobs.
func (f *fixture) loadScripts() {
	f.Helper()
	for _, script := range []*store.Script{
		store.PushScript, store.PushEarlyScript, store.ChangeScript, store.DeleteScript, store.DeadScript, dropScript,
		store.ReserveScript, store.TakeScript,
		store.TakeByIDScript, store.SettleScript, store.SettleByIDScript, store.ConfigureScript, restoreScript,
	} {
		if err := f.s.Redis().ScriptLoad(f.ctx, f.s.ComposeForTest()(script)).Err(); err != nil {
			f.Fatal(script.Name, err)
		}
	}
}

// listEarly makes every job far ahead go into the list of its minute.
func (f *fixture) listEarly() {
	for _, s := range f.q.Shards.All() {
		s.RewriteForTest(func(text string) string {
			return strings.Replace(text, "FEW, DENSE = 100, 16", "FEW, DENSE = 0, 0", 1)
		})
	}
}

// bringNear makes every job of a topic due that waits for a due time more than half an hour ahead, and opens all lists.
func bringNear(ctx context.Context, s *store.Shard, topic string) error {
	key, now := store.Prefix(0)+"j:"+topic, time.Now()
	for id, text := range s.Redis().HGetAll(ctx, key).Val() {
		r, err := store.ParseRecord(text)
		if err != nil || r.StateForTest() != string(store.Waiting) || r.PairsForTest()["next"] != "" || r.DueForTest().Before(now.Add(30*time.Minute)) {
			continue
		}
		due := now.UnixMilli() - 1
		text = strings.Replace(text, fmt.Sprint(" ", r.DueForTest().UnixMilli(), " "), fmt.Sprint(" ", due, " "), 1)
		s.Redis().HSet(ctx, key, id, text)
		w := store.Prefix(0) + "w:" + r.PriorityForTest().String() + ":" + topic
		s.Redis().ZAdd(ctx, w, redis.Z{Score: float64(due * 1000), Member: id})
		if r.PairsForTest()["order"] != "" {
			s.Redis().HSet(ctx, store.Prefix(0)+"c:"+topic, "order", 1)
			s.Redis().ZAdd(ctx, store.Prefix(0)+"o:"+topic, redis.Z{Score: float64(due * 1000), Member: seat(id)})
		}
	}
	for _, minute := range s.Redis().ZRange(ctx, store.Prefix(0)+"m:"+topic, 0, -1).Val() {
		s.Redis().ZAdd(ctx, store.Prefix(0)+"m:"+topic, redis.Z{Member: minute})
	}
	s.Redis().ZAdd(ctx, store.Prefix(0)+"next", redis.Z{Score: 1, Member: topic})
	for more := true; more; {
		a, err := s.Buckets()[0].Advance(ctx)
		if err != nil {
			return err
		}
		more = a.More
	}
	return nil
}

// figures has what people read about the jobs.
func (f *fixture) figures() observe.Figures { return observe.Figures{Queue: f.q} }

func (f *fixture) push(topic, id string, delay time.Duration, more ...func(*store.Push)) store.Result {
	f.Helper()
	p := store.Push{Topic: topic, ID: id, Body: []byte(`{"id":"` + id + `"}`), Delay: delay, Priority: store.Normal}
	for _, m := range more {
		m(&p)
	}
	r := f.q.Push(f.ctx, p)
	if r.Err != nil {
		f.Fatalf("push %s/%s: %v", topic, id, r.Err)
	}
	return r
}

func (f *fixture) advance() store.Advance {
	f.Helper()
	a, err := f.b.Advance(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	return a
}

func (f *fixture) reserve(n int, more ...func(*store.Reserve)) []*store.Job {
	f.Helper()
	f.n++
	r := store.Reserve{Worker: "w", Token: fmt.Sprint("t", f.n), Max: n, Pattern: "0102010201"}
	for _, m := range more {
		m(&r)
	}
	got, err := f.b.Reserve(f.ctx, r)
	if err != nil {
		f.Fatal(err)
	}
	return got.Jobs
}

func (f *fixture) settle(v store.Verb, more func(*store.End), ls ...*store.Job) []bool {
	f.Helper()
	var st []store.End
	for _, l := range ls {
		x := store.End{Lease: l.Lease, Verb: v, AtHead: true, Endpoint: store.EndpointUp}
		if v != store.Release && v != store.Expire {
			x.Attempt = &store.Attempt{StartedAt: 1, TookMS: 2, Status: 500, Answer: "no"}
		}
		if more != nil {
			more(&x)
		}
		st = append(st, x)
	}
	ended, err := f.b.End(f.ctx, st)
	if err != nil {
		f.Fatal(err)
	}
	return held(ended)
}

// held returns which of the leases were held.
func held(ended []store.Ended) []bool {
	list := make([]bool, len(ended))
	for i := range ended {
		list[i] = ended[i].Err == nil
	}
	return list
}

func (f *fixture) get(topic, id string) *store.Job {
	f.Helper()
	j, err := f.q.Get(f.ctx, topic, id)
	if err != nil {
		f.Fatalf("get %s/%s: %v", topic, id, err)
	}
	return j
}

// read returns a job of one shard, nil if it has none.
func read(ctx context.Context, s *store.Shard, topic, id string) (*store.Job, error) {
	jobs, err := store.Live(s.Read(ctx, []store.Ref{{Topic: topic, ID: id}}))
	return jobs[0], err
}

// Scripts that package queue declares.
var (
	dropScript    = store.Declare(os.DirFS("../queue"), store.Row{Name: "drop", Deadline: true, Lost: store.LostDoubt})
	restoreScript = store.Declare(os.DirFS("../queue"), store.Row{Name: "restore", Deadline: true})
	leaveScript   = store.Declare(os.DirFS("../queue"), store.Row{Name: "leave", Lost: store.LostNever})
)

// restore stores waiting jobs as a move from another shard does.
func (f *fixture) restore(to *store.Bucket, jobs ...*store.Job) {
	f.Helper()
	var args []any
	for _, j := range jobs {
		record, long := store.RecordOf(j)
		args = store.AppendAttempts(append(args, j.Topic, j.ID, record, long, ""), j.History)
	}
	if _, err := to.CallList(f.ctx, len(jobs), restoreScript, args...); err != nil {
		f.Fatal(err)
	}
}

// leave removes a job as a move does that has stored it in another shard, and reports whether it was still as j.
func (f *fixture) leave(from *store.Bucket, j *store.Job) bool {
	f.Helper()
	reply, err := from.CallList(f.ctx, 2, leaveScript, j.Topic, j.ID, j.Revision)
	if err != nil {
		f.Fatal(err)
	}
	return reply[1] == int64(1)
}

func (f *fixture) gone(topic, id string) {
	f.Helper()
	if j, err := f.q.Get(f.ctx, topic, id); !errors.Is(err, store.ErrNotFound) {
		f.Fatalf("get %s/%s = %+v, %v; want none", topic, id, j, err)
	}
}

func (f *fixture) stats(topic string, d, r, u, x int64) {
	f.Helper()
	m, err := f.q.Stats(f.ctx, []string{topic})
	if err != nil {
		f.Fatal(err)
	}
	if s := m[topic]; s.Delayed != d || s.Ready != r || s.Running != u || s.Dead != x {
		f.Fatalf("stats of %s = %+v; want delayed %d ready %d running %d dead %d", topic, s, d, r, u, x)
	}
}

// clean fails when Redis holds anything but configuration.
func (f *fixture) clean() {
	f.Helper()
	keys, err := f.s.Redis().Keys(f.ctx, "*").Result()
	if err != nil {
		f.Fatal(err)
	}
	for _, k := range keys {
		switch k := strings.TrimPrefix(k, store.Prefix(0)); {
		case k == "rev", k == "cmp", k == "format", k == "pos", k == "turns", k == "idle", k == "probe", k == "turn",
			k == "next", k == "act", k == "fin",
			strings.HasPrefix(k, "v:"), strings.HasPrefix(k, "c:"), strings.HasPrefix(k, "t:"),
			strings.HasPrefix(k, "q:"):
		default:
			f.Errorf("%s is left in Redis", k)
		}
	}
}

// homeIs returns an id whose home is the given shard.
func (f *fixture) homeIs(shard, topic string) string {
	f.Helper()
	for i := 0; ; i++ {
		if id := fmt.Sprint("job", i); queue.ByWeight(f.q.Shards.All(), topic, id)[0].Name() == shard {
			return id
		}
	}
}

// twoShards has jobs in a, and a second shard b.
func twoShards(t *testing.T, o store.Options) (f *fixture, states func(a, b string)) {
	urlA, _ := startRedis(t)
	urlB, _ := startRedis(t)
	q := open(o)
	t.Cleanup(func() { _ = q.Close() })
	f = &fixture{T: t, ctx: t.Context(), q: q}
	states = func(a, b string) {
		t.Helper()
		if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: urlA, State: a}, {Name: "b", URL: urlB, State: b}}); err != nil {
			t.Fatal(err)
		}
	}
	states("active", "offline")
	f.s, f.b = q.Shards.All()[0], q.Shards.Buckets()[0]
	states("active", "draining")
	return f, states
}
