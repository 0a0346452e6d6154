package test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// keyed records the calls of jobs whose ids are KEY.NUMBER, and whether two of one key were under way at once.
type keyed struct {
	mu      sync.Mutex
	running map[string]bool
	twice   []string
	order   map[string][]string // of the calls that succeeded, by key
}

func (k *keyed) behaviour(then func(key string, c harness.Call) int) harness.Behaviour {
	k.running, k.order = map[string]bool{}, map[string][]string{}
	return func(w http.ResponseWriter, _ *http.Request, c harness.Call) int {
		key, _, _ := strings.Cut(c.ID, ".")
		k.mu.Lock()
		if k.running[key] {
			k.twice = append(k.twice, c.ID)
		}
		k.running[key] = true
		k.mu.Unlock()
		status := then(key, c)
		w.WriteHeader(status)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.running[key] = false
		if status == http.StatusOK {
			k.order[key] = append(k.order[key], c.ID)
		}
		return status
	}
}

func (k *keyed) calls(key string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.order[key])
}

// inOrder fails if two calls of a key were made at once, or the calls of one were not those of its jobs in turn.
func (k *keyed) inOrder(t *testing.T, keys, jobs int, except string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.twice) > 0 {
		t.Errorf("called while another of its key was: %v", k.twice)
	}
	for n := range keys {
		key := fmt.Sprint("k", n)
		var want []string
		for j := range jobs {
			want = append(want, fmt.Sprintf("%s.%d", key, j))
		}
		if key != except && !slices.Equal(k.order[key], want) {
			t.Errorf("key %s: called %v", key, k.order[key])
		}
	}
}

// pushKeys pushes jobs of keys, of each key the next one a millisecond later.
func (i *installation) pushKeys(t *testing.T, topic string, keys, jobs int, due func(key int) time.Time) {
	t.Helper()
	var batch []M
	for j := range jobs {
		for n := range keys {
			key := fmt.Sprint("k", n)
			batch = append(batch, M{"topic": topic, "id": fmt.Sprintf("%s.%d", key, j), "key": key, "body": j,
				"due_at": due(n).Add(time.Duration(j) * time.Millisecond).UnixMilli()})
		}
	}
	for some := range slices.Chunk(batch, 1000) {
		i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": some})
	}
}

// TestAHangingKeyHoldsUpNoOther: of a thousand keys, in two shards.
func TestAHangingKeyHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	i := start(t, onRedis(harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})))
	var k keyed
	topic := i.topic(t, k.behaviour(func(key string, _ harness.Call) int {
		if key == "k0" {
			time.Sleep(300 * time.Millisecond) // a slow endpoint
		}
		return http.StatusOK
	}), M{"per_key": M{"max_in_flight": 1}, "ttr": "30s"})
	const keys, jobs = 1000, 3
	base := time.Now().Add(3 * time.Second)
	i.pushKeys(t, topic, keys, jobs, func(key int) time.Time {
		return base.Add(time.Duration(key) * 5 * time.Millisecond)
	})
	i.pushKeys(t, topic, 1, 30, func(int) time.Time { return base }) // those that exist are kept
	var late []time.Duration
	for _, c := range i.endpoint.WaitCalls(t, topic, keys*jobs-jobs+1) {
		if !strings.HasPrefix(c.ID, "k0.") {
			late = append(late, c.At.Sub(c.DueAt))
		}
	}
	slices.Sort(late)
	p99 := late[len(late)*99/100]
	t.Logf("%d calls of other keys: p50 %v, p99 %v late", len(late), late[len(late)/2], p99)
	if p99 > 2*time.Second { // generous: the machine may be busy
		t.Errorf("p99 is %v late", p99)
	}
	harness.Eventually(t, soon, "the last call of each key", func() error {
		return harness.Equal("calls of the last key", len(k.calls("k999")), jobs)
	})
	if n := len(k.calls("k0")); n >= 30 {
		t.Errorf("the slow key had all its %d calls", n)
	}
	harness.Eventually(t, soon, "all calls of the slow key", func() error {
		return harness.Equal("calls", len(k.calls("k0")), 30)
	})
	k.inOrder(t, keys, jobs, "k0")
	k.inOrder(t, 1, 30, "")
}

// TestKeysThroughKills: dispatchers are killed, and calls fail; retries keep the place of their key.
func TestKeysThroughKills(t *testing.T) {
	t.Parallel()
	i := start(t, onRedis(harness.StartRedis(t, harness.RedisOptions{})))
	var k keyed
	topic := i.topic(t, k.behaviour(func(_ string, c harness.Call) int {
		if c.Attempt == 1 && strings.HasSuffix(c.ID, "3") {
			return http.StatusBadGateway
		}
		return http.StatusOK
	}), M{"per_key": M{}, "ttr": "2s", "retry": []string{"100ms"}})
	const keys, jobs = 20, 10
	base := time.Now().Add(time.Second)
	i.pushKeys(t, topic, keys, jobs, func(int) time.Time { return base })
	i.endpoint.WaitCalls(t, topic, keys)
	i.KillRole("dispatcher")
	harness.Eventually(t, soon, "all calls", func() error {
		for n := range keys {
			calls := slices.Compact(k.calls(fmt.Sprint("k", n))) // a killed dispatcher's call may be made again
			if err := harness.Equal(fmt.Sprint("calls of key ", n), len(calls), jobs); err != nil {
				return err
			}
		}
		return nil
	})
	k.mu.Lock()
	for key, calls := range k.order {
		k.order[key] = slices.Compact(calls)
	}
	k.mu.Unlock()
	k.inOrder(t, keys, jobs, "")
}

// TestAJobOfAKeyOverTheAPI: its key is shown, and why it waits; topics with wrong limits are refused.
func TestAJobOfAKeyOverTheAPI(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	gate := harness.NewGate()
	topic := i.topic(t, gate.Hold, M{"per_key": M{"rate_limit": 5}, "ttr": "1m"})
	i.MustPush(t, topic, M{"id": "first", "key": "customer/42 ü", "body": 1})
	i.endpoint.WaitCalls(t, topic, 1)
	if code, out := i.Run("push", topic, "--id", "second", "--key", "customer/42 ü", "--body", "2"); code != 0 {
		t.Fatalf("push: %d %s", code, out)
	}
	i.MustDo(t, http.StatusCreated, http.MethodPut, harness.JobPath(topic, "third")+"?key=42&delay=1h", "3")
	a := i.MustDo(t, http.StatusOK, http.MethodGet, harness.JobPath(topic, "second"), nil)
	if !strings.Contains(a.String(), `"key":"customer/42 ü"`) || !strings.Contains(a.String(), `"reason":"key"`) {
		t.Errorf("the second is %s", a)
	}
	gate.Open()
	if calls := i.endpoint.WaitCalls(t, topic, 2); calls[1].ID != "second" ||
		calls[1].At.Sub(calls[0].At) < 200*time.Millisecond {
		t.Errorf("called %+v", calls)
	}
	for bad, field := range map[string]string{
		`{"max_in_flight":0}`: "per_key.max_in_flight", `{"max_in_flight":2,"rate_limit":1}`: "per_key.rate_limit",
		`{"most":1}`: "per_key.most", `{"skip_retrying":1}`: "per_key.skip_retrying", `1`: "per_key",
	} {
		a := i.Do(ctx, http.MethodPut, "/v1/topics/wrong",
			fmt.Sprintf(`{"callback_url":%q,"per_key":%s}`, i.endpoint.URL("/"), bad))
		if a.Status/100 != 4 || !strings.Contains(a.String(), `"field":"`+field+`"`) {
			t.Errorf("%s: %s", bad, a)
		}
	}
}
