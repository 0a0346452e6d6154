package test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/wakecall/wakecall/test/harness"
)

// oncall is a person with a question, who begins at the overview.
type oncall struct {
	*harness.Browser
	t      *testing.T
	clicks int
}

const mostClicks = 3

// asks begins a question at the overview. answered fails the test if it took too many clicks.
func (o *oncall) asks(question string, answer func()) {
	o.t.Helper()
	o.clicks = 0
	o.Open("/")
	answer()
	o.t.Logf("%s: %d clicks", question, o.clicks)
	if o.clicks > mostClicks {
		o.t.Errorf("%s took %d clicks", question, o.clicks)
	}
}

// click clicks the first visible link or button with a text, in the script that finds it: the page's live parts are
// replaced at any time.
func (o *oncall) click(text string) {
	o.t.Helper()
	o.clicks++
	find := fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll("dialog[open] button, a, button, summary")].find(
			e => e.checkVisibility() && !e.disabled && e.innerText.includes(%q));
		if (e) e.click();
		return !!e;
	})()`, text)
	harness.Eventually(o.t, soon, "a link or button "+text, func() error {
		return harness.Equal("there", harness.Evaluate[bool](o.Browser, find), true)
	})
}

// search searches with the box on every page. The key counts as a click.
func (o *oncall) search(id string) {
	o.t.Helper()
	o.clicks++
	o.Type("#wk-search", id+kb.Enter)
}

// TestOnCallFindsEachAnswerInThreeClicks, from the overview of an installation with trouble.
func TestOnCallFindsEachAnswerInThreeClicks(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	i.put(t, "shop.close", harness.Status(http.StatusOK), nil)
	i.put(t, "shop.broken", harness.Status(http.StatusInternalServerError),
		M{"owner": "payments team", "max_attempts": 1})
	i.put(t, "shop.slow", harness.Status(http.StatusOK), M{"rate_limit": 1})
	i.put(t, "shop.held", harness.Status(http.StatusOK), nil)
	i.put(t, "shop.gone", harness.Status(http.StatusNotFound), M{"max_attempts": 1})
	i.MustPush(t, "shop.gone", M{"id": "gone-1", "body": 1})
	i.MustPush(t, "shop.close", M{"id": "order-42", "body": 1})
	for n := range 30 {
		i.MustPush(t, "shop.broken", M{"id": fmt.Sprint("broken-", n), "body": n})
	}
	for n := range 240 { // of which some wait until the last question, on a busy machine too
		i.MustPush(t, "shop.slow", M{"id": fmt.Sprint("slow-", n), "body": n})
	}
	o := &oncall{Browser: i.signIn(t), t: t}
	o.Open("/topics/shop.held")
	o.Fill("#why", "the bank is closed")
	o.Submit(`form[action$="/pause"] button`)
	i.MustPush(t, "shop.held", M{"id": "waits-1", "body": 1})

	o.asks("what is broken, whose fault, since when, how many", func() {
		o.Shows(soon, "shop.broken", "returns 500", "Since", "jobs wait", "owner: payments team")
	})
	o.asks("was order-42 called", func() {
		o.search("order-42")
		o.Shows(soon, "order-42", "Delivered", "200")
	})
	o.asks("why does it wait", func() {
		o.search("waits-1")
		o.Shows(soon, "paused", "the bank is closed", "admin", "Resume")
	})
	o.asks("re-drive only the 500s", func() {
		state := func(topic, id string) string {
			var job struct{ State string }
			must(t, i.MustDo(t, http.StatusOK, http.MethodGet, harness.JobPath(topic, id), nil).JSON(&job))
			return job.State
		}
		o.click("Dead letters")
		o.Shows(soon, "answered 404")
		o.clicks++
		o.Click(`button[name=error][value*="500"]`)
		o.Shows(soon, "whose last error contains “the endpoint answered 500")
		o.clicks++
		o.Submit("#wk-confirm [data-ok]")
		o.Shows(soon, "Re-drive dead jobs #1", "last error contains “the endpoint answered 500")
		harness.Eventually(t, soon, "a job to be re-driven", func() error {
			return harness.Equal("the state", state("shop.broken", "broken-0"), "ready")
		})
		if other := state("shop.gone", "gone-1"); other != "dead" {
			t.Errorf("another job is %s", other)
		}
	})
	o.asks("pause it", func() {
		o.click("shop.broken")
		o.Fill("#why", "until they have mended it")
		o.clicks++
		o.Submit(`form[action$="/pause"] button`)
		o.Shows(soon, "Resume", "until they have mended it")
	})
	o.asks("who changed it", func() {
		o.click("shop.broken")
		o.Shows(soon, "Events", "paused", "admin")
	})
	o.asks("mute it", func() {
		o.click("Alerts")
		o.Shows(soon, "shop.broken")
		o.clicks++
		o.Click(`main tbody input[type=checkbox]`)
		o.Fill(`main input[name=why]`, "known")
		o.clicks++
		o.Submit(`main button[name=mute]`)
		o.Shows(soon, "known")
	})
	o.asks("when is it clear", func() {
		o.Shows(soon, "shop.slow: ", "cleared in ")
	})
}
