package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/test/harness"
)

// TestAGroupIsCancelledInTheBrowser: the search leads to the group, whose page says what a cancellation would do, and
// then what it did. While a shard does not respond, the page says so, and the jobs there are deleted afterwards.
func TestAGroupIsCancelledInTheBrowser(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	one, two := harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onURL(one.URL()+","+two.URL()))
	topics := []string{i.topic(t, nil, M{}), "mail.remind"}
	i.put(t, topics[1], nil, M{})
	push := func(group string, jobs int) {
		for n := range jobs {
			i.MustPush(t, topics[n%2], M{"id": fmt.Sprint(group, "-", n), "group": group, "body": n, "delay": "1h"})
		}
	}
	push("order-42", 2)
	push("order-43", 20)
	b := i.signIn(t)
	b.Open("/search?id=order-42")
	b.Submit(`.wk-found a[href$="/groups/order-42"]`)
	b.Shows(soon, "order-42", topics[0], topics[1])
	b.Fill(`#f-close`, "10m")
	b.Click(`form[action$="/groups/order-42"] button`)
	b.Shows(soon, "Cancel the group order-42? 2 waiting and dead jobs are deleted.")
	shots(b, "group-sure")
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "2 jobs were deleted", "closed for 10m", "closed until", "This group has no jobs.")
	shots(b, "group-cancelled")
	b.Open("/audit?object=group/order-42")
	b.Shows(soon, "user/admin", "cancel", "2 → 0")

	two.Pause()
	missing := func(want bool) {
		t.Helper()
		harness.Eventually(t, harness.Patience, fmt.Sprint("redis-2 not to respond: ", want), func() error {
			b.Open("/groups/order-43")
			return harness.Equal("it is missing", strings.Contains(b.Text(), "Shard redis-2 does not respond"), want)
		})
	}
	missing(true)
	b.Click(`form[action$="/groups/order-43"] button`)
	b.Shows(soon, "Shard redis-2 does not respond. The jobs of the group there are deleted when it responds again.")
	shots(b, "group-without-sure")
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "Group order-43 was cancelled", "The jobs of the group there are deleted when it responds again.")
	shots(b, "group-without")
	two.Resume()
	missing(false)
	harness.Eventually(t, soon, "the jobs of the shard to be deleted", func() error {
		b.Open("/groups/order-43")
		return harness.Equal("it has none", strings.Contains(b.Text(), "This group has no jobs."), true)
	})
}
