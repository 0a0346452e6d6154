package test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/wakecall/wakecall/test/harness"
)

// TestAShardIsDrainedAndRemovedInTheBrowser: the page shows the progress without a reload; a shard with jobs is not
// removed.
func TestAShardIsDrainedAndRemovedInTheBrowser(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	one, two := harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})
	i := many(t, onURL(one.URL()+","+two.URL()))
	b := i.signIn(t)
	b.Open("/shards/redis-1")
	b.Click(`form[action$="/state"] button[title]`)
	b.Shows(soon, "Drain redis-1?")
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "moved to other shards")
	shoot(b, "drain-1280.png")
	b.Size(360, 760)
	shoot(b, "drain-360.png")
	b.Size(1280, 900)
	b.Shows(soon, "Empty: it can be removed.")
	b.Open("/shards")
	b.Shows(soon, "Empty: it can be removed.")
	shoot(b, "drained-1280.png")
	b.Open("/shards/redis-1")
	b.Click(`form[action$="/delete"] button`)
	b.Do(chromedp.SendKeys(chromedp.CSS(`#wk-confirm-word`), "redis-1"))
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "Shard redis-1 was removed.")
	i.delayed(t, manyJobs)
}

// shoot takes a picture in the directory WAKECALL_SCREENSHOTS, if it is set.
func shoot(b *harness.Browser, name string) {
	if dir := os.Getenv("WAKECALL_SCREENSHOTS"); dir != "" {
		b.Screenshot(filepath.Join(dir, name))
	}
}
