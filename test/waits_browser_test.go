package test

import (
	"fmt"
	"testing"

	"github.com/wakecall/wakecall/test/harness"
)

// TestWhyAJobWaitsInTheBrowser: the page of a job says why it waits, and one click ends it. A job that its topic has
// forgotten is found in the journal with one search, and its page says when it was called.
func TestWhyAJobWaitsInTheBrowser(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, M{"remember": "0s", "state": "paused"})
	i.MustPush(t, topic, M{"id": "order-42", "body": M{"order": 42}})
	i.MustPush(t, topic, M{"id": "order-43", "body": 1, "delay": "1h"})
	b := i.signIn(t)
	b.Size(1440, 900)
	b.Open("/topics/" + topic + "/jobs/order-43")
	b.Shows(soon, "Why does this job wait?", "The topic is paused.", "It is not due until")
	shots(b, "waits")
	b.Open("/topics/" + topic + "/jobs/order-42")
	b.Expect("404") // no shard has it after its delivery
	b.Submit(`form[action$="/resume"] button`)
	i.waitGone(t, topic, "order-42")

	b.Open("/search?id=order-42")
	b.Shows(soon, "No results", "Pushed", "Attempt 1", "200 delivered", "All journals were searched")
	b.Click(`.wk-journal h2 a`)
	b.Shows(soon, "No shard has this job", "200 delivered", "All journals were searched")
	shots(b, "journal")
}

// shots takes pictures of a page, wide and narrow, light and dark.
func shots(b *harness.Browser, name string) {
	for _, dark := range []bool{false, true} {
		b.Dark(dark)
		for _, width := range []int64{390, 1440} {
			b.Size(width, 900)
			shoot(b, fmt.Sprintf("%s-%d-%t.png", name, width, dark))
		}
	}
}
