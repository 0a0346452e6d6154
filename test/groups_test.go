package test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/redistest"
)

// cancelled is the answer to the cancellation of a group.
type cancelled struct {
	Deleted, Running int
	Pending          []string
}

// cancelGroup cancels a group and closes it for ten minutes.
func cancelGroup(t *testing.T, api *harness.API, group string, status int) (c cancelled) {
	t.Helper()
	answer := api.MustDo(t, status, http.MethodDelete, "/v1/groups/"+group+"?close=10m", nil)
	if err := answer.JSON(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// inGroup returns how many live jobs a group has.
func (i *installation) inGroup(t *testing.T, group string) int {
	t.Helper()
	var g struct {
		Counts struct{ Delayed, Ready, Running, Dead int }
	}
	if err := i.MustDo(t, http.StatusOK, http.MethodGet, "/v1/groups/"+group, nil).JSON(&g); err != nil {
		t.Fatal(err)
	}
	return g.Counts.Delayed + g.Counts.Ready + g.Counts.Running + g.Counts.Dead
}

// pushGroup pushes n jobs of each topic into a group; "" for none.
func (i *installation) pushGroup(t *testing.T, topics []string, group string, n int, delay string) {
	t.Helper()
	for _, topic := range topics {
		var batch []M
		for k := range n {
			job := M{"topic": topic, "id": fmt.Sprintf("%s-%d", group, k), "body": k, "delay": delay}
			if group != "" {
				job["group"] = group
			}
			batch = append(batch, job)
		}
		i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": batch})
	}
}

// onlyOthersAreCalled waits until n jobs of a topic were called, none of them of a group.
func (i *installation) onlyOthersAreCalled(t *testing.T, topic, group string, n int) {
	t.Helper()
	harness.Eventually(t, soon, "the other jobs to be called", func() error {
		called := map[string]bool{}
		for _, c := range i.endpoint.Calls(topic) {
			if strings.HasPrefix(c.ID, group) {
				t.Fatalf("%s was called, and its group had been cancelled", c.ID)
			}
			called[c.ID] = true
		}
		return harness.Equal("their number", len(called), n)
	})
}

// isClosed checks that a topic takes no job into a group.
func isClosed(t *testing.T, api *harness.API, topic, group string) {
	t.Helper()
	answer := api.Push(ctx, topic, M{"body": 1, "group": group, "delay": "1h"})
	if answer.Status != http.StatusConflict || answer.Code() != "group_closed" {
		t.Errorf("a push into the closed group is answered %s", answer)
	}
}

// TestGroupCancelledWhileAShardHangs: the members in that shard are not called when it goes on.
func TestGroupCancelledWhileAShardHangs(t *testing.T) {
	t.Parallel()
	shards := []*harness.Redis{
		harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{}),
	}
	i := start(t, onRedis(shards...))
	topic := i.topic(t, nil, nil)
	i.pushGroup(t, []string{topic}, "order", 100, "10s")
	i.pushGroup(t, []string{topic}, "", 100, "11s")
	shards[1].Pause()
	c := cancelGroup(t, i.API, "order", http.StatusAccepted)
	shards[1].Resume()
	if !slices.Equal(c.Pending, []string{"redis-2"}) || c.Deleted == 0 || c.Deleted == 100 {
		t.Errorf("answered %+v", c)
	}
	i.onlyOthersAreCalled(t, topic, "order", 100)
	if n := i.inGroup(t, "order"); n > 0 {
		t.Errorf("the group has %d jobs", n)
	}
	for range 10 { // some of them belong to the shard that did not answer
		isClosed(t, i.API, topic, "order")
	}
}

// TestGroupClosedDuringPushes: of two servers one pushes into groups at the moment in which the other one cancels them.
func TestGroupClosedDuringPushes(t *testing.T) {
	needProcesses(t)
	dbtest.OnServers(t, groupClosedDuringPushes)
}

func groupClosedDuringPushes(t *testing.T, db dbtest.Stoppable) {
	opts := on(redistest.StartShards(t), "WAKECALL_REGISTRY_DSN="+db.DSN("wakecall"))
	one, two := harness.New(t, opts), harness.New(t, opts)
	i := &installation{one, harness.StartEndpoint(t)}
	for _, host := range []*harness.Wakecall{one, two} {
		host.Up()
		harness.Eventually(t, soon, "the host to be ready", host.Readyz)
	}
	harness.ShareToken(t, one, two)
	topic := i.topic(t, nil, nil)
	i.waitTaking(t, []string{topic}, one.API, two.API)
	pushes := two.Quick()
	var deleted, accepted, refused int
	for n := range 300 {
		group := fmt.Sprint("order-", n)
		var pushing sync.WaitGroup
		pushing.Go(func() {
			for k := range 4 {
				id := fmt.Sprintf("%s-%d", group, k)
				answer := pushes.Push(ctx, topic, M{"id": id, "body": 1, "group": group, "delay": "3s"})
				switch {
				case answer.Status == http.StatusCreated:
					accepted++
				case answer.Code() == "group_closed":
					refused++
				default:
					t.Errorf("answered %s", answer)
				}
			}
		})
		time.Sleep(time.Duration(n%20) * 200 * time.Microsecond) // before, between and after the pushes
		c := cancelGroup(t, one.API, group, http.StatusOK)
		pushing.Wait()
		deleted += c.Deleted
	}
	if deleted != accepted || accepted == 0 || refused == 0 {
		t.Errorf("%d were accepted, %d refused; %d deleted", accepted, refused, deleted)
	}
	i.pushGroup(t, []string{topic}, "", 1, "3500ms")
	i.onlyOthersAreCalled(t, topic, "order", 1)
}

// TestGroupCancelledDuringADrain: none of its jobs is left in the shard that drains, in the others, or on its way.
func TestGroupCancelledDuringADrain(t *testing.T) {
	t.Parallel()
	shards := []*harness.Redis{
		harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{}),
	}
	i := start(t, onRedis(shards...))
	topic := i.topic(t, nil, nil)
	for n := range 4 {
		i.pushGroup(t, []string{topic}, fmt.Sprint("order", n), 800, "1h")
	}
	i.succeeds(t, "shard", "drain", "redis-2")
	sum := 0
	for n := range 4 { // at several times of it
		time.Sleep(50 * time.Millisecond)
		sum += cancelGroup(t, i.API, fmt.Sprint("order", n), http.StatusOK).Deleted
	}
	t.Logf("%d were deleted", sum) // one that was on its way counts twice
	harness.Eventually(t, soon, "no job to be left", func() error { return i.Drained(ctx, topic) })
	for n := range 4 {
		if left := i.inGroup(t, fmt.Sprint("order", n)); left > 0 || sum < 3200 {
			t.Errorf("the group has %d jobs", left)
		}
	}
}

// TestGroupAfterALoss: when Redis has lost the cancellation, or everything, cancelled jobs stay away, the group is
// closed, and other jobs are in their group again.
func TestGroupAfterALoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *harness.Redis) func(){
		"everything": func(_ *testing.T, r *harness.Redis) func() { return r.Lose },
		"the cancellation": func(t *testing.T, r *harness.Redis) func() {
			waitKept(t, r)
			return r.Remember()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := harness.StartRedis(t, harness.RedisOptions{})
			i := start(t, onRedis(r))
			topic := i.topic(t, nil, nil)
			i.pushGroup(t, []string{topic}, "order", 100, "6s")
			i.pushGroup(t, []string{topic}, "other", 50, "7s")
			forget := lose(t, r)
			cancelGroup(t, i.API, "order", http.StatusOK)
			forget()
			r.Restart()
			harness.Eventually(t, soon, "the server to be ready", i.Readyz)
			harness.Eventually(t, soon, "the jobs to be back", func() error {
				return harness.Equal("jobs of the other group", i.inGroup(t, "other"), 50)
			})
			isClosed(t, i.API, topic, "order")
			i.onlyOthersAreCalled(t, topic, "order", 50)
			if code, out := i.Run("recover", "--since", "10m"); code != 0 {
				t.Errorf("recover exits with %d: %s", code, out)
			}
			if n := i.inGroup(t, "order"); n > 0 {
				t.Errorf("the cancelled group has %d jobs", n)
			}
		})
	}
}

// TestGroupOnACluster: its jobs are in all buckets, on all masters.
func TestGroupOnACluster(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, on(redistest.StartMasters(t)))
	topics := i.acrossCluster(t)
	i.waitTaking(t, topics, i.API)
	i.pushGroup(t, topics, "order", 10, "1h")
	if n := i.inGroup(t, "order"); n != 10*len(topics) {
		t.Errorf("the group has %d jobs of %d topics", n, len(topics))
	}
	c := cancelGroup(t, i.API, "order", http.StatusOK)
	if n := i.inGroup(t, "order"); c.Deleted != 10*len(topics) || n > 0 {
		t.Errorf("answered %+v, and the group has %d jobs", c, n)
	}
	for _, topic := range topics {
		isClosed(t, i.API, topic, "order")
	}
}

// TestGroupsOfTheGuide runs the commands of docs/guides/groups.md in their order, and finds what the page says that one
// sees.
func TestGroupsOfTheGuide(t *testing.T) {
	t.Parallel()
	followGuide(t, "groups.md",
		"", `"name":"order.close"`, `"id":"42"`, `"delayed":3`, `{"moved":3,"skipped":0}`, `{"deleted":3,"running":0}`,
		`"code":"group_closed"`)
}
