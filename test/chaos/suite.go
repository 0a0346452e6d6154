package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// choose takes a fault, or two in different places.
func (s *suite) choose(faults []fault) []fault {
	first := faults[s.rng.IntN(len(faults))]
	if first.alone || s.rng.IntN(10) < 6 {
		return []fault{first}
	}
	second := faults[s.rng.IntN(len(faults))]
	if second.alone || second.place == first.place {
		return []fault{first}
	}
	return []fault{first, second}
}

// strike injects faults, holds them, heals them, and waits until both hosts deliver again.
func (s *suite) strike(faults []fault) {
	s.t.Helper()
	var heals []func() error
	var names []string
	for _, f := range faults {
		heal, err := f.inject()
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			s.t.Fatalf("%s: %v", f.name, err)
		}
		s.book.note("fault", "", "%s", f.name)
		heals, names = append(heals, heal), append(names, f.name)
	}
	if len(names) == 0 {
		return
	}
	time.Sleep(time.Duration(200+s.rng.IntN(3000)) * time.Millisecond)
	for _, heal := range heals {
		if err := heal(); err != nil {
			s.t.Fatalf("healing %v: %v", names, err)
		}
	}
	healed := time.Now()
	s.book.note("healed", "", "%s", strings.Join(names, ", "))
	s.recovered(names)
	took := time.Since(healed)
	for _, name := range names {
		s.struck[name] = append(s.struck[name], took)
	}
}

// recoveryLimit is after when an installation that was healed has to deliver again.
const recoveryLimit = 60 * time.Second

// recovered waits until both hosts take pushes for both shards, and calls come.
func (s *suite) recovered(names []string) {
	s.t.Helper()
	s.markers++
	for n, h := range s.hosts {
		for k := range 4 { // of four ids some belong to each shard
			id := fmt.Sprintf("m%d-%d-%d", s.markers, n, k)
			harness.Eventually(s.t, recoveryLimit, fmt.Sprintf("host%d to deliver %s after %v", n+1, id, names), func() error {
				if len(s.endpoint.CallsOf("marker", id)) > 0 {
					return nil
				}
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				a := h.Quick().Push(ctx, "marker", harness.M{"id": id, "body": 1})
				return errors.Join(a.Err, harness.Equal("answer", a.String(), "a call"))
			})
		}
	}
}

// settle waits until nothing is left to do, and judges.
func (s *suite) settle() {
	s.t.Helper()
	api := s.hosts[0].Quick()
	names := []string{"good", "flaky", "slow", "doomed"}
	harness.Eventually(s.t, 2*time.Minute, "the queues to drain", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		for _, topic := range names {
			st, err := api.Stats(ctx, topic)
			if err != nil {
				return err
			}
			if st.Delayed+st.Ready+st.Running > 0 {
				return fmt.Errorf("%s has %+v", topic, st)
			}
		}
		return nil
	})
	dead := map[harness.Key]bool{}
	for _, topic := range names {
		jobs, err := api.List(context.Background(), topic, "dead")
		if err != nil {
			s.t.Fatal(err)
		}
		for _, j := range jobs {
			dead[harness.Key{Topic: topic, ID: j.ID}] = true
		}
	}
	calls := slices.DeleteFunc(s.endpoint.Calls(""), func(c harness.Call) bool { return c.Topic == "marker" })
	s.verdict = s.book.judge(calls, dead)
	for i, w := range s.verdict.Wrong {
		if i == 20 {
			s.t.Errorf("… and %d more", len(s.verdict.Wrong)-i)
			break
		}
		s.t.Error(w)
	}
	if s.t.Failed() {
		file, err := s.book.save(s.seed, calls)
		s.t.Errorf("seed %d; the record is %s (%v)", s.seed, file, err)
	}
}

// report prints what was broken how often, and how long it took until calls went again.
func (s *suite) report() {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "FAULT\tTIMES\tSLOWEST RECOVERY")
	for _, name := range slices.Sorted(maps.Keys(s.struck)) {
		fmt.Fprintf(w, "%s\t%d\t%s\n", name, len(s.struck[name]), slices.Max(s.struck[name]).Round(10*time.Millisecond))
	}
	_ = w.Flush()
	v := s.verdict
	s.t.Logf("\n%s\n%d jobs, %d acknowledged: %d delivered, %d dead, %d deleted; %d calls, %d jobs' calls came again\npushes by answer: %v",
		b.String(), v.Jobs, v.Acknowledged, v.Delivered, v.Dead, v.Deleted, v.Calls, v.Twice, s.book.pushes)
}

// suite is the installation and what happened to it.
type suite struct {
	t        *testing.T
	seed     uint64
	rng      *rand.Rand
	book     *book
	hosts    []*harness.Wakecall
	redis    []*harness.Redis
	toRedis  []*harness.Proxy
	db       *harness.MariaDB
	toDB     *harness.Proxy
	endpoint *harness.Endpoint

	smallDisk string // of the first host's journal; empty where none could be mounted
	struck    map[string][]time.Duration
	markers   int
	verdict   verdict
}

func newSuite(t *testing.T, seed uint64) *suite {
	s := &suite{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, seed)), book: newBook(), struck: map[string][]time.Duration{}}
	s.db = harness.StartMariaDB(t)
	s.toDB = harness.StartProxy(t, s.db.Addr())
	var urls []string
	for range 2 {
		r := harness.StartRedis(t, harness.RedisOptions{})
		p := harness.StartProxy(t, r.Addr())
		s.redis, s.toRedis = append(s.redis, r), append(s.toRedis, p)
		urls = append(urls, "redis://"+p.Addr()+"/0")
	}
	s.endpoint = harness.StartEndpoint(t)
	s.mountSmallDisk()
	for n := range 2 {
		env := map[string]string{
			"WAKECALL_REGISTRY_DSN": strings.Replace(s.db.DSN(), s.db.Addr(), s.toDB.Addr(), 1),
			"WAKECALL_REDIS_NODES":  strings.Join(urls, ","), "WAKECALL_REDIS_TIMEOUT": "1s", "WAKECALL_DISPATCHERS": "1",
		}
		if n == 0 && s.smallDisk != "" {
			env["WAKECALL_JOURNAL_DIR"] = s.smallDisk
		}
		if n == 1 {
			env["WAKECALL_JOURNAL_SYNC"], env["WAKECALL_SPOOL"] = "always", "on"
		}
		h := harness.New(t, harness.Options{Env: env})
		h.Up()
		h.WaitReadyShared(s.hosts...)
		s.hosts = append(s.hosts, h)
	}
	s.furnish()
	return s
}

// mountSmallDisk gives the first host's journal a file system of its own that can be filled, where that is allowed.
func (s *suite) mountSmallDisk() {
	if os.Getenv("CHAOS_NODISK") != "" {
		return
	}
	dir := filepath.Join(s.t.TempDir(), "journal")
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", dir).CombinedOutput(); err != nil {
		s.t.Logf("no disk is filled: %v: %s", err, out)
		return
	}
	s.t.Cleanup(func() {
		for _, h := range s.hosts {
			h.Kill9()
		}
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			s.t.Errorf("unmount %s: %v", dir, err)
		}
	})
	s.smallDisk = dir
}

// furnish registers the topics.
func (s *suite) furnish() {
	s.endpoint.Set("/flaky", flaky())
	s.endpoint.Set("/slow", harness.Slow(200*time.Millisecond))
	s.endpoint.Set("/doomed", harness.Status(400)) // the breaker takes it for an answer
	for name, attempts := range map[string]int{"good": 1000, "flaky": 1000, "slow": 1000, "doomed": 2, "marker": 1000} {
		s.hosts[0].MustPutTopic(s.t, name, harness.M{
			"callback_url": s.endpoint.URL("/" + name), "ttr": "2s", "retry": []string{"200ms", "500ms", "1s"}, "max_attempts": attempts,
		})
		harness.Eventually(s.t, 10*time.Second, "the second host to know "+name, func() error {
			return harness.Equal("status", s.hosts[1].Do(context.Background(), "GET", "/v1/topics/"+name, nil).Status, 200)
		})
	}
}

func sortFaults(list []fault) {
	slices.SortFunc(list, func(a, b fault) int { return cmp.Compare(a.name, b.name) })
}
