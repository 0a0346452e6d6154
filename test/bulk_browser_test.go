package test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/wakecall/wakecall/test/harness"
)

const (
	manyJobs    = 4000
	manyMatch   = 1111 // order-2, order-2x, order-2xx and order-2xxx
	manyAtOnce  = 500
	manyDelayed = "2h"
)

// many is an installation with several thousand delayed jobs in the topic shop.close.
func many(t *testing.T, o harness.Options) *installation {
	t.Helper()
	i := start(t, o)
	i.put(t, "shop.close", harness.Status(http.StatusOK), M{"title": "Close unpaid orders", "rate_limit": 2})
	for begin := 0; begin < manyJobs; begin += manyAtOnce {
		var jobs []M
		for n := begin; n < begin+manyAtOnce; n++ {
			jobs = append(jobs, M{"topic": "shop.close", "id": fmt.Sprint("order-", n), "body": M{"order": n},
				"delay": manyDelayed})
		}
		i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": jobs})
	}
	return i
}

func (i *installation) delayed(t *testing.T, want int) {
	t.Helper()
	harness.Eventually(t, soon, "the jobs", func() error {
		s, err := i.Stats(ctx, "shop.close")
		if err != nil {
			return err
		}
		return harness.Equal("the delayed jobs", s.Delayed, want)
	})
}

// TestBulkActionsInTheBrowser: a filter, the number of matching jobs, an action on all of them that shows the number,
// its progress, and its result.
func TestBulkActionsInTheBrowser(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := many(t, harness.Options{})
	b := i.signIn(t)
	b.Open("/topics/shop.close?tab=jobs&state=delayed")
	b.Shows(soon, "4,000 delayed jobs", "Select all 4,000 matching jobs")
	b.Fill(`#j-id`, "^order-2")
	b.Submit(`form[method=get] button[type=submit]`)
	b.Shows(soon, "1,111 jobs match", "Select all 1,111 matching jobs")

	b.Click(`#all-matching`)
	b.Fill(`#all-shift`, "-10m")
	b.Click(`#matching button[value=due]`)
	b.Shows(soon, "Change the due time of 1,111 jobs?")
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "Change jobs #1", "−10m", "done", "1,111 of 1,111")

	b.Open("/topics/shop.close?tab=jobs&state=delayed&id=%5Eorder-2")
	b.Click(`#all-matching`)
	b.Click(`#matching button[value=delete]`)
	b.Shows(soon, "Delete 1,111 jobs?")
	b.Do(chromedp.SendKeys(chromedp.CSS(`#wk-confirm-word`), "shop.close"))
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "Delete jobs #2", "done", "1,111 of 1,111")
	i.delayed(t, manyJobs-manyMatch)
}
