package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
)

// shortTimeout is the timeout of queues whose calls wait, for half of it, for a suspended replica.
const shortTimeout = 4 * time.Second

// replicated is a master with one replica, and a queue whose topics have the durability that they are named after.
type replicated struct {
	*fixture
	master, replica *redistest.Server
	accepted        journalled
}

// journalled holds the arguments of the calls of Options.Accepted.
type journalled struct {
	mu      sync.Mutex
	jobs    map[string]bool
	largest int // pushes in one call
}

func (j *journalled) take(pushes []store.Push, results []store.Result) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.largest = max(j.largest, len(pushes))
	for i := range pushes {
		if results[i].Err == nil {
			j.jobs[pushes[i].Topic+"/"+pushes[i].ID] = true
		}
	}
	return nil
}

func (j *journalled) has(name string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.jobs[name]
}

// byName gives topics whose names begin with replica the durability replica.
func byName(topic string) store.Durability {
	if strings.HasPrefix(topic, store.Replica.String()) {
		return store.Replica
	}
	return store.Memory
}

func durableQueue(t *testing.T, url string, o store.Options) *fixture {
	t.Helper()
	o.Durability = byName
	f := fixtureOn(t, url, o)
	eventually(t, "the shard is adopted", func() bool { return adoptAll(f.ctx, f.s) == nil })
	return f
}

// startReplicated starts a master and its replica. Pushes wait for the replica for half of timeout.
func startReplicated(t *testing.T, timeout time.Duration) *replicated {
	t.Helper()
	r := &replicated{
		master:  redistest.Start(t, redistest.Options{Args: []string{"--repl-diskless-sync-delay", "0"}}),
		replica: redistest.Start(t, redistest.Options{}),
	}
	r.accepted.jobs = map[string]bool{}
	if err := r.replica.Follow(t.Context(), r.master); err != nil {
		t.Fatal(err)
	}
	r.fixture = durableQueue(t, r.master.URL(),
		store.Options{Timeout: timeout, Accepted: r.accepted.take})
	eventually(t, "the replica follows", func() bool {
		info := store.ParseInfo(r.s.Redis().Info(t.Context(), "replication").Val())
		return strings.Contains(info["slave0"], "state=online")
	})
	return r
}

// pushSafely pushes a job of the durable topic until the replica confirms it: a busy machine may delay that.
func (r *replicated) pushSafely(id string) {
	r.Helper()
	eventually(r, "the replica to confirm "+id, func() bool {
		return r.q.Push(r.ctx, store.Push{Topic: "replica", ID: id, Delay: time.Hour}).Err == nil
	})
}

func (r *replicated) stopReplica() { r.signal(syscall.SIGSTOP) }

// contReplica resumes the replica, and returns when it has confirmed everything that it missed.
func (r *replicated) contReplica() {
	r.Helper()
	r.signal(syscall.SIGCONT)
	eventually(r.T, "the replica confirms the writes that it missed", func() bool {
		p := r.s.Redis().Pipeline() // one connection: WAIT waits for the last write of its own connection
		p.Ping(r.ctx)
		confirmed := p.Do(r.ctx, "WAIT", 1, 100)
		_, err := p.Exec(r.ctx)
		return err == nil && confirmed.Val() == int64(1)
	})
}

func (r *replicated) signal(s syscall.Signal) {
	r.Helper()
	r.replica.Signal(s)
}

// calls returns how many WAITs the server has processed.
func (r *replicated) calls() int {
	r.Helper()
	var n int
	stat := store.ParseInfo(r.s.Redis().Info(r.ctx, "commandstats").Val())["cmdstat_wait"]
	_, _ = fmt.Sscanf(stat, "calls=%d", &n)
	return n
}

// A job whose push was answered is already on the replica: the master is killed at once, and the replica is promoted.
func TestAnAnsweredPushOfDurabilityReplicaSurvivesItsMaster(t *testing.T) {
	r := startReplicated(t, 20*time.Second)
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			for i := range 10 {
				if res := r.q.Push(r.ctx, store.Push{Topic: "replica", ID: fmt.Sprint(w, "-", i),
					Delay: time.Hour}); res.Err != nil {
					t.Error(res.Err)
				}
			}
		})
	}
	wg.Wait()
	r.master.Kill9()
	r.replica.Do("REPLICAOF", "NO", "ONE")
	promoted := durableQueue(t, r.replica.URL(), store.Options{})
	for w := range 20 {
		for i := range 10 {
			promoted.get("replica", fmt.Sprint(w, "-", i))
		}
	}
}

func TestOneWaitServesManyPushesAndPushesOfMemoryNeedNone(t *testing.T) {
	r := startReplicated(t, 20*time.Second)
	push := func(topic string) {
		var wg sync.WaitGroup
		for w := range 50 {
			wg.Go(func() {
				for i := range 20 {
					if res := r.q.Push(r.ctx, store.Push{Topic: topic, ID: fmt.Sprint(w, "-", i),
						Delay: time.Hour}); res.Err != nil {
						t.Error(res.Err)
					}
				}
			})
		}
		wg.Wait()
	}
	push("other")
	if n := r.calls(); n != 0 {
		t.Fatalf("%d WAITs for pushes that need none", n)
	}
	push("replica")
	if n := r.calls(); n == 0 || n > 500 {
		t.Fatalf("%d WAITs for 1000 pushes, 50 at a time", n)
	}
}

func TestAReplicaThatStandsStillMakesPushesStoredButNotSafe(t *testing.T) {
	r := startReplicated(t, shortTimeout)
	r.pushSafely("before")
	r.stopReplica()
	var res store.Result
	// a busy machine may be late
	eventually(t, "a push of memory to be answered while one of replica waits", func() bool {
		slow := make(chan store.Result, 1)
		go func() { slow <- r.q.Push(r.ctx, store.Push{Topic: "replica", ID: "x", Delay: time.Hour}) }()
		waits := func() bool { return r.waiting() != "0" }
		eventually(t, "the push waits", func() bool { return waits() || len(slow) > 0 })
		r.push("other", "y", time.Hour)
		still := waits()
		res = <-slow
		return still
	})
	var un *store.UnavailableError
	if !store.Stored(res.Err) || !errors.As(res.Err, &un) || un.Reason != "replica" || un.RetryAfter <= 0 ||
		res.Job.ID != "x" {
		t.Fatalf("push = %+v", res)
	}
	for _, part := range []string{"replica/x", "shard a", "2s", "same id"} {
		if !strings.Contains(res.Err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, res.Err)
		}
	}
	if !r.accepted.has("replica/x") {
		t.Error("the journal has no line for a stored push")
	}
	r.get("replica", "x")
	if res := r.q.Push(r.ctx, store.Push{Topic: "replica", ID: "x", Delay: time.Hour}); !store.Stored(res.Err) {
		t.Fatalf("pushed again while the replica is suspended: %+v", res)
	}
	r.contReplica()
	eventually(t, "the push is safe after the replica resumed", func() bool {
		res := r.q.Push(r.ctx, store.Push{Topic: "replica", ID: "x", Delay: time.Hour})
		return res.Err == nil && res.Duplicate
	})
}

// waiting returns how many clients wait for the replica.
func (r *replicated) waiting() string {
	return store.ParseInfo(r.s.Redis().Info(r.ctx, "clients").Val())["blocked_clients"]
}

func TestABatchIsUnsafeOnlyWhereItsTopicsAskForMore(t *testing.T) {
	r := startReplicated(t, shortTimeout)
	r.stopReplica()
	got := r.q.PushBatch(r.ctx, []store.Push{{Topic: "other", ID: "1"}, {Topic: "replica", ID: "2"},
		{Topic: "other", ID: "3"}, {Topic: "replica", ID: "4"}})
	for i, res := range got {
		if want := i%2 == 1; store.Stored(res.Err) != want || (res.Err != nil) != want {
			t.Errorf("result %d = %+v", i, res)
		}
	}
}

func TestChangesAndDeletionsWaitAsPushesDo(t *testing.T) {
	r := startReplicated(t, shortTimeout)
	r.pushSafely("x")
	body := []byte("changed")
	eventually(t, "a change is safe", func() bool {
		_, err := r.q.Change(r.ctx, "replica", "x", store.Change{Body: &body})
		return err == nil
	})
	r.stopReplica()
	body = []byte("again")
	job, err := r.q.Change(r.ctx, "replica", "x", store.Change{Body: &body})
	if !store.Stored(err) || job == nil || string(job.Body) != "again" {
		t.Fatalf("change = %+v, %v", job, err)
	}
	if err := r.q.Delete(r.ctx, "replica", "x", nil); !store.Stored(err) {
		t.Fatalf("delete: %v", err)
	}
	if err := r.q.Delete(r.ctx, "replica", "x", nil); !store.Stored(err) {
		t.Fatalf("deleted again, although the first deletion is not safe: %v", err)
	}
	r.contReplica()
	eventually(t, "the deletion is safe after the replica resumed", func() bool {
		return errors.Is(r.q.Delete(r.ctx, "replica", "x", nil), store.ErrNotFound)
	})
}

func TestAServerWithoutAReplicaSaysSo(t *testing.T) {
	url, _ := startRedis(t)
	f := durableQueue(t, url, store.Options{Timeout: shortTimeout})
	if err := f.q.Shards.CanKeep(f.ctx, store.Replica); err == nil || !strings.Contains(err.Error(), "a has no connected replica") {
		t.Errorf("can keep: %v", err)
	}
	if err := f.q.Shards.CanKeep(f.ctx, store.Memory); err != nil {
		t.Errorf("can keep in memory: %v", err)
	}
	res := f.q.Push(f.ctx, store.Push{Topic: "replica", ID: "x"})
	if !store.Stored(res.Err) || !strings.Contains(res.Err.Error(), "no connected replica") {
		t.Errorf("push = %+v", res)
	}
	if !f.s.Up() {
		t.Error("a shard counts as down because it has no replica")
	}
}

// A push of a job that exists in another shard is confirmed by that shard's replica.
func TestADuplicateInAnotherShardIsConfirmedThere(t *testing.T) {
	r := startReplicated(t, shortTimeout)
	url, _ := startRedis(t)
	shards := []store.ShardConfig{{Name: "a", URL: r.s.URLForTest(), State: "active"}, {Name: "b", URL: url, State: "active"}}
	id := ""
	if err := r.q.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	for i := 0; id == ""; i++ { // an id whose home is b
		if s := fmt.Sprint(i); queue.ByWeight(r.q.Shards.All(), "replica", s)[0].Name() == "b" {
			id = s
		}
	}
	if err := r.q.Shards.Set(shards[:1]); err != nil {
		t.Fatal(err)
	}
	r.pushSafely(id)
	if err := r.q.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other shard's replica to confirm it", func() bool {
		res := r.q.Push(r.ctx, store.Push{Topic: "replica", ID: id})
		if !res.Duplicate || res.Job.Shard != "a" {
			t.Fatalf("push = %+v", res)
		}
		return res.Err == nil
	})
	r.stopReplica()
	if res := r.q.Push(r.ctx, store.Push{Topic: "replica", ID: id}); !store.Stored(res.Err) {
		t.Fatalf("push with the replica stopped = %+v", res)
	}
}

func TestAClusterWaitsForTheReplicaOfTheBucketsMaster(t *testing.T) {
	f := durableQueue(t, redistest.StartCluster(t, 1).URL(), store.Options{})
	eventually(t, "every master has its replica", func() bool { return f.q.Shards.CanKeep(f.ctx, store.Replica) == nil })
	eventually(t, "a push is taken", func() bool {
		return f.q.Push(f.ctx, store.Push{Topic: "replica", ID: "first", OnDuplicate: store.Replace}).Err == nil
	})
	for i := range 20 {
		f.push("replica", fmt.Sprint(i), time.Hour)
	}
	if err := f.q.Delete(f.ctx, "replica", "7", nil); err != nil {
		t.Fatal(err)
	}
	f.gone("replica", "7")
}

// A large request is divided into calls that do not wait long for the replica.
func TestCallsThatWaitForAReplicaAreSmall(t *testing.T) {
	r := startReplicated(t, 20*time.Second)
	list := make([]store.Push, 2*store.LargeJobs)
	for i := range list {
		list[i] = store.Push{Topic: "replica", ID: fmt.Sprint(i), Delay: time.Hour}
	}
	for _, res := range r.q.PushBatch(r.ctx, list) {
		if res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	if n := r.accepted.largest; n != store.MaxReplicaJobs {
		t.Errorf("the largest call stored %d jobs; the limit is %d", n, store.MaxReplicaJobs)
	}
}

// While the node of bucket 0 is down, pushes that wait for a replica go on in the buckets of other nodes.
func TestPushesGoOnWhileTheNodeOfTheIdentityIsDown(t *testing.T) {
	q := open(store.Options{Timeout: 10 * time.Second, Durability: byName})
	t.Cleanup(func() { _ = q.Close() })
	if err := q.Shards.Set([]store.ShardConfig{
		{Name: "a", URL: redistest.StartCluster(t, 1).URLs[0], State: "active", Identity: "one"}}); err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards.All()[0], b: q.Shards.Buckets()[0]}
	eventually(t, "the shard is adopted", func() bool { return adoptAll(f.ctx, f.s) == nil })
	eventually(t, "every master has its replica", func() bool { return f.q.Shards.CanKeep(f.ctx, store.Replica) == nil })
	cluster := f.s.Redis().(*redis.ClusterClient)
	if err := cluster.ForEachMaster(f.ctx, func(ctx context.Context, c *redis.Client) error {
		return c.ConfigSet(ctx, "cluster-require-full-coverage", "no").Err()
	}); err != nil {
		t.Fatal(err)
	}
	first, err := cluster.MasterForKey(f.ctx, store.Prefix(0))
	if err != nil {
		t.Fatal(err)
	}
	topic := ""
	for i := 0; topic == ""; i++ {
		name := fmt.Sprint("replica", i)
		node, err := cluster.MasterForKey(f.ctx, f.s.BucketOf(name).Key(""))
		if err != nil {
			t.Fatal(err)
		}
		if node.Options().Addr != first.Options().Addr {
			topic = name
		}
	}
	eventually(t, "a push is taken", func() bool {
		return q.Push(f.ctx, store.Push{Topic: topic, ID: "before", OnDuplicate: store.Replace}).Err == nil
	})
	_ = first.ShutdownNoSave(f.ctx)
	for i := range 20 {
		if res := q.Push(f.ctx, store.Push{Topic: topic, ID: fmt.Sprint(i), Delay: time.Hour}); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
}

// While a replica is suspended, every push is answered soon, however many arrive: those whose turn would come too late
// are not stored.
func TestNoPushWaitsForLongBehindAReplicaThatStandsStill(t *testing.T) {
	r := startReplicated(t, 2*shortTimeout) // on a busy machine a call of hundreds of pushes takes seconds
	r.pushSafely("before")
	r.stopReplica()
	const pushers, each = 3000, 4 // more than five rounds of calls
	var wg sync.WaitGroup
	var unsafe, refused atomic.Int64
	began := time.Now()
	for i := range pushers {
		wg.Go(func() {
			list := make([]store.Push, each)
			for n := range list {
				list[n] = store.Push{Topic: "replica", ID: fmt.Sprint(i, "-", n), Delay: time.Hour}
			}
			for _, res := range r.q.PushBatch(r.ctx, list) {
				var un *store.UnavailableError
				switch {
				case store.Stored(res.Err):
					unsafe.Add(1)
				case errors.As(res.Err, &un) && un.Reason == "overloaded":
					refused.Add(1)
				default:
					t.Errorf("push %d = %+v", i, res)
				}
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the last answer arrived after %s", took)
	}
	if unsafe.Load() == 0 || refused.Load() == 0 || !r.s.Up() {
		t.Errorf("%d stored and not safe, %d refused, shard up: %v", unsafe.Load(), refused.Load(), r.s.Up())
	}
	r.push("other", "y", time.Hour)
	r.contReplica()
	r.pushSafely("after")
}

// After a replica of a Cluster took over, pushes go to it, and wait for its own replica, the former master.
func TestPushesFollowAClusterWhoseReplicaTakesOver(t *testing.T) {
	f := durableQueue(t, redistest.StartCluster(t, 1).URL(), store.Options{Timeout: 10 * time.Second})
	push := func(id string) bool {
		return f.q.Push(f.ctx, store.Push{Topic: "replica", ID: id, Delay: time.Hour}).Err == nil
	}
	eventually(t, "every master has its replica", func() bool { return f.q.Shards.CanKeep(f.ctx, store.Replica) == nil })
	eventually(t, "a push is taken", func() bool { return push("before") })
	cluster, key := f.s.Redis().(*redis.ClusterClient), f.s.BucketOf("replica").Key("")
	role := func(c *redis.Client) string { return store.ParseInfo(c.Info(f.ctx, "replication").Val())["role"] }
	var replica *redis.Client
	eventually(t, "the client has discovered the replica", func() bool {
		cluster.ReloadState(f.ctx)
		var err error
		replica, err = cluster.SlaveForKey(f.ctx, key)
		return err == nil && role(replica) == "slave"
	})
	if err := replica.Do(f.ctx, "CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica is promoted", func() bool { return role(replica) == "master" })
	eventually(t, "a push is taken and safe", func() bool { return adoptAll(f.ctx, f.s) == nil && push("after") })
	f.get("replica", "before")
	f.get("replica", "after")
}
