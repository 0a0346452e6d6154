package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
)

// tokenWith creates a token over the API and returns its id and an API with it.
func tokenWith(t *testing.T, api *harness.API, fields M) (id int, with *harness.API) {
	t.Helper()
	var made struct {
		ID    int
		Token string
	}
	must(t, api.MustDo(t, http.StatusCreated, http.MethodPost, "/v1/tokens", fields).JSON(&made))
	return made.ID, harness.NewAPI(api.Base, made.Token)
}

// TestARateIsSharedByServers: two servers, each with several clients of one token, push no more than its quota and one
// second's, through a kill of a server process and a restart of Redis.
func TestARateIsSharedByServers(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	onServerOfTheDay(t, aRateIsSharedByServers)
}

func aRateIsSharedByServers(t *testing.T, db dbtest.Stoppable) {
	redis, opts := shared(t, db)
	var hosts []*harness.Wakecall
	for range 2 {
		hosts = append(hosts, harness.New(t, opts))
		hosts[len(hosts)-1].Up()
	}
	for _, h := range hosts {
		harness.Eventually(t, soon, "the host to be ready", h.Readyz)
	}
	harness.ShareToken(t, hosts...)
	i := &installation{hosts[0], harness.StartEndpoint(t)}
	topic := i.topic(t, nil, M{"state": "paused"})
	const rate = 200
	_, with := tokenWith(t, i.API, M{
		"name": "limited", "rights": []string{"push"}, "topics": []string{topic},
		"quotas": M{"pushes_per_second": rate},
	})
	var admitted, refused atomic.Int64
	push := func(h *harness.Wakecall, batch int) {
		api := harness.NewAPI(h.Base, with.Token)
		var jobs []M
		for range batch {
			jobs = append(jobs, M{"topic": topic, "body": 1})
		}
		var results struct {
			Results []struct{ Error *struct{ Code string } }
		}
		answer := api.Do(ctx, http.MethodPost, "/v1/jobs", M{"jobs": jobs})
		if answer.Err != nil || answer.Status != http.StatusOK || answer.JSON(&results) != nil {
			time.Sleep(10 * time.Millisecond)
			return
		}
		for _, r := range results.Results {
			switch {
			case r.Error == nil:
				admitted.Add(1)
			case r.Error.Code == "quota_exceeded":
				refused.Add(1)
			}
		}
	}
	for _, h := range hosts { // it is known everywhere
		harness.Eventually(t, soon, "the token to be known", func() error {
			answer := harness.NewAPI(h.Base, with.Token).Do(ctx, http.MethodPost, "/v1/jobs", M{"jobs": []M{{}}})
			return harness.Equal("status", answer.Status, http.StatusOK)
		})
	}
	load := func(d time.Duration) time.Duration {
		admitted.Store(0)
		refused.Store(0)
		began := time.Now()
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				for time.Since(began) < d {
					push(hosts[n%2], n%4*3+1)
				}
			})
		}
		wg.Wait()
		return time.Since(began)
	}
	took := load(4 * time.Second)
	most := int64(rate*took.Seconds()) + rate
	if n := admitted.Load(); n > most || n < most/2 || refused.Load() == 0 {
		t.Errorf("%d were admitted in %s, at most %d; %d refused", n, took, most, refused.Load())
	}
	faults := make(chan struct{})
	go func() {
		defer close(faults)
		time.Sleep(time.Second)
		hosts[1].KillRole("server")
		time.Sleep(time.Second)
		redis.Restart()
	}()
	took = load(5 * time.Second)
	<-faults
	if n := admitted.Load(); n > int64(rate*took.Seconds())+2*rate { // a restart may give another second's
		t.Errorf("%d were admitted in %s through the faults", n, took)
	}

	api := harness.NewAPI(hosts[0].Base, with.Token)
	harness.Eventually(t, soon, "a push to be refused", func() error {
		answer := api.Do(ctx, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"body": 1})
		if answer.Status != http.StatusTooManyRequests {
			for range 3 {
				push(hosts[0], 200)
			}
			return fmt.Errorf("it answers %s", answer)
		}
		for name, want := range map[string]string{
			"RateLimit-Policy": fmt.Sprintf(`"pushes_per_second";q=%d;w=1`, rate),
			"RateLimit":        `"pushes_per_second";r=0;t=1`,
			"Retry-After":      "1",
		} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		return nil
	})
}

// TestWaitingJobsOfAToken are counted with those of tokens that it made, until they end or die, and again after a
// re-drive, a drain, and a loss of Redis's data.
func TestWaitingJobsOfAToken(t *testing.T) {
	t.Parallel()
	shards := []*harness.Redis{
		harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{}),
	}
	i := start(t, onRedis(shards...))
	topic := i.topic(t, harness.Status(http.StatusGone), M{"remember": "0"})
	const most = 100
	code, out := i.Run("token", "create", "team", "--rights", "push,read,manage,tokens", "--topics", topic,
		"--waiting-jobs", strconv.Itoa(most), "--output", "json")
	if code != 0 {
		t.Fatal(out)
	}
	var made struct {
		ID    int
		Token string
	}
	_, text, _ := strings.Cut(out, "{") // after a note
	must(t, json.Unmarshal([]byte("{"+text), &made))
	team := harness.NewAPI(i.Base, made.Token)
	harness.Eventually(t, soon, "the token to be known", func() error {
		return harness.Equal("status", team.Do(ctx, http.MethodGet, "/v1/tokens", nil).Status, http.StatusOK)
	})
	_, child := tokenWith(t, team, M{"name": "child", "rights": []string{"push"}, "topics": []string{topic}})
	used := func(want int) {
		t.Helper()
		harness.Eventually(t, soon, fmt.Sprint("its jobs to be ", want), func() error {
			var list struct {
				Tokens []struct {
					ID   int
					Used struct {
						Jobs int `json:"waiting_jobs"`
					}
				}
			}
			if err := team.Do(ctx, http.MethodGet, "/v1/tokens", nil).JSON(&list); err != nil {
				return err
			}
			for _, one := range list.Tokens {
				if one.ID == made.ID {
					return harness.Equal("waiting jobs", one.Used.Jobs, want)
				}
			}
			return fmt.Errorf("it is not listed: %+v", list)
		})
	}
	push := func(api *harness.API, id string, n int, delay string, want int) {
		t.Helper()
		var jobs []M
		for k := range n {
			jobs = append(jobs, M{"topic": topic, "id": fmt.Sprintf("%s-%d", id, k), "body": k, "delay": delay})
		}
		var results struct {
			Results []struct{ Error *struct{ Code string } }
		}
		must(t, api.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": jobs}).JSON(&results))
		stored := 0
		for _, r := range results.Results {
			if r.Error == nil {
				stored++
			}
		}
		if stored != want {
			t.Fatalf("%d of %d jobs %s were stored, want %d", stored, n, id, want)
		}
	}
	push(child, "first", 60, "1h", 60)
	used(60)
	time.Sleep(1500 * time.Millisecond) // every server has the next sum
	push(team, "second", 60, "1h", 40)
	used(most)
	if answer := child.Push(ctx, topic, M{"body": 1}); answer.Status != http.StatusTooManyRequests {
		t.Errorf("beyond the quota: %s", answer)
	}
	i.MustPush(t, topic, M{"id": "of-others", "body": 1, "delay": "1h"}) // another token
	for k := range 30 {
		team.MustDo(t, http.StatusNoContent, http.MethodDelete, harness.JobPath(topic, fmt.Sprint("first-", k)), nil)
	}
	used(70)
	time.Sleep(1500 * time.Millisecond)
	push(child, "dying", 20, "0s", 20) // the endpoint answers 410: they die
	used(70)
	i.endpoint.Set("/"+topic, nil)
	team.MustDo(t, http.StatusOK, http.MethodPost, "/v1/topics/"+topic+"/dead/retry", M{"limit": 20})
	used(70) // delivered
	i.succeeds(t, "shard", "drain", "redis-2")
	harness.Eventually(t, soon, "the shard to be empty", func() error {
		size, err := shards[1].Client().Keys(ctx, "wk:{*}:j:*").Result()
		if err == nil && len(size) > 0 {
			err = fmt.Errorf("it has %v", size)
		}
		return err
	})
	used(70)
	shards[0].Lose()
	shards[0].Restart()
	harness.Eventually(t, soon, "the installation to be ready", i.Readyz)
	used(70)
	time.Sleep(1500 * time.Millisecond)
	push(child, "more", 40, "1h", 30)
}
