package test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// TestManyWaitAndOthersPush: clients wait for a hundred thousand topics, other ones in each request. No call to Redis
// carries more than a few hundred of them, they do not fill Redis, and leave it when the clients have gone.
func TestManyWaitAndOthersPush(t *testing.T) {
	t.Parallel()
	const requestLimit, namespaceLimit, mib = 250, 10_000, 1 << 20 // of topics; the defaults
	r := harness.StartRedis(t, harness.RedisOptions{})
	pops := fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
	i := start(t, harness.Options{Env: map[string]string{
		"WAKECALL_REDIS_NODES": r.URL(), "WAKECALL_GATEWAYS_DELAYQUEUE_ADDR": pops,
	}})
	waitListening(t, pops)
	i.MustDo(t, http.StatusCreated, "PUT", "/v1/topics/others", M{"delivery": "pull"})
	used := func() int64 {
		text, err := r.Info("Memory", "used_memory")
		must(t, err)
		n, err := strconv.ParseInt(text, 10, 64)
		must(t, err)
		return n
	}
	before := used()
	r.ConfigSet("slowlog-max-len", "20000")
	r.ConfigSet("slowlog-log-slower-than", "500") // µs: without the commands in scripts, which would crowd out the scripts

	ctx, stop := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer stop()
	allowed := &harness.ManyNames{URL: "http://" + pops + "/pop", Names: requestLimit, Clients: 60, Renewed: time.Second}
	tooMany := &harness.ManyNames{URL: "http://" + pops + "/pop", Names: 2000, Clients: 60, Renewed: time.Second}
	for _, clients := range []*harness.ManyNames{allowed, tooMany} {
		waiting.Go(func() { clients.Run(ctx) })
	}
	c, most := r.Client(), int64(0)
	pushed := 0
	for began := time.Now(); time.Since(began) < 5*time.Second || pushed < 50 || allowed.Waited.Load() < 40; pushed++ {
		i.MustPush(t, "others", M{"body": 1})
		most = max(most, c.ZCard(t.Context(), "wk:{0}:awaited").Val())
	}
	grown := used() - before
	longest := 0
	for _, entry := range c.SlowLogGet(t.Context(), -1).Val() {
		more := 0 // arguments than the log shows
		_, _ = fmt.Sscanf(entry.Args[len(entry.Args)-1], "... (%d more arguments)", &more)
		longest = max(longest, more)
	}
	if longest > 3*requestLimit {
		t.Errorf("the longest call to Redis has %d arguments", longest)
	}
	if most > namespaceLimit || most < requestLimit {
		t.Errorf("%d topics were awaited at once", most)
	}
	if grown > 16*mib {
		t.Errorf("Redis grew by %d MiB", grown/mib)
	}
	for key, clients := range map[string]*harness.ManyNames{
		"pull.topics_per_namespace": allowed, "pull.topics_per_request": tooMany,
	} {
		refused := false
		clients.Refused.Range(func(answer, _ any) bool {
			refused = true
			if !strings.Contains(answer.(string), key) {
				t.Errorf("refused with %s; want the limit's name, %s", answer, key)
			}
			return true
		})
		if !refused {
			t.Errorf("none was refused by %s", key)
		}
	}
	stop()
	waiting.Wait()
	harness.Eventually(t, harness.Patience, "their topics to leave Redis", func() error {
		return harness.Equal("topics", r.Do("EXISTS", "wk:{0}:awaited"), any(int64(0)))
	})
	t.Logf("%d pushes, %d waits, at most %d topics awaited, %d arguments, Redis grew by %d KiB", pushed,
		allowed.Waited.Load(), most, longest, grown/1024)
}
