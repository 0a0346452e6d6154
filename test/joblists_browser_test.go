package test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/wakecall/wakecall/test/harness"
)

// TestJobListsOnAPhoneAndByKeyboard: in a narrow window nothing of a list of jobs is cut off, texts have enough
// contrast, and a table that is wider than its window scrolls by keyboard. WAKECALL_TEST_SHOTS is a directory for
// pictures of the pages.
func TestJobListsOnAPhoneAndByKeyboard(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	i.put(t, "mail.welcome", harness.Status(http.StatusInternalServerError), M{"max_attempts": 1})
	i.MustPutTopic(t, "shop.close", M{"callback_url": i.endpoint.URL("/shop"), "state": "paused"})
	long := strings.Repeat("a-long-id-", 8)
	for n := range 5 {
		i.MustPush(t, "mail.welcome", M{"id": fmt.Sprint(long, n), "body": M{"to": "x"}})
		i.MustPush(t, "shop.close", M{"id": fmt.Sprint(long, n), "group": long, "body": M{"order": n}})
	}
	harness.Eventually(t, soon, "the jobs to be dead", func() error {
		return harness.Equal("dead", i.MustStats(t, "mail.welcome").Dead, 5)
	})
	b := i.signIn(t)
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	lists := []string{
		"/topics/shop.close?tab=jobs&state=ready", "/topics/mail.welcome?tab=jobs&state=dead", "/dead",
		"/topics/mail.welcome/jobs/" + long + "1", "/deliveries",
		"/groups/" + long, "/audit", "/search?id=" + long,
	}
	for n, path := range lists {
		harness.Eventually(t, soon, "the lines of "+path, func() error { // calls are noted within a second
			b.Open(path)
			return harness.Equal("there are some",
				harness.Evaluate[bool](b, `!!document.querySelector("main :is(tbody tr, .wk-steps li, .wk-found a)")`), true)
		})
		for _, width := range []int64{390, 768, 1440} {
			b.Size(width, 900)
			b.Dark((n+int(width))%4 == 0)
			b.Open(path)
			if cut := harness.Evaluate[[]string](b, `[...document.querySelectorAll("main table :is(td, th)")].filter(e => {
				const r = e.getBoundingClientRect(), box = e.closest(".table-responsive").getBoundingClientRect();
				return e.checkVisibility() && r.right > Math.min(box.right, innerWidth) + 1;
			}).map(e => e.innerText)`); len(cut) > 0 || b.Overflow() > 0 {
				t.Errorf("%s at %d cuts off %q, and is %d too wide", path, width, cut, b.Overflow())
			}
			if folded := harness.Evaluate[bool](b, `!!document.querySelector("details[data-fold]:not([open])")`); folded !=
				(width == 390 && harness.Evaluate[bool](b, `!!document.querySelector("details[data-fold]")`)) {
				t.Errorf("%s at %d: the filters are folded: %v", path, width, folded)
			}
			for _, f := range b.Axe(string(axe)) {
				t.Errorf("%s at %d: axe finds %s: %v", path, width, f.Help, f.Nodes)
			}
			if dir := os.Getenv("WAKECALL_TEST_SHOTS"); dir != "" {
				for _, dark := range []bool{false, true} {
					b.Dark(dark)
					b.Screenshot(filepath.Join(dir, fmt.Sprintf("%d-%d-%t.png", n, width, dark)))
				}
			}
		}
		b.Size(390, 900)
		b.Open(path)
		if !harness.Evaluate[bool](b, `!!document.querySelector("main .table-responsive")`) {
			continue
		}
		if focused := harness.Evaluate[bool](b, `(() => {
			const table = document.querySelector("main .table-responsive");
			table.firstElementChild.style.minWidth = "900px";
			window.dispatchEvent(new Event("resize"));
			table.focus();
			return table.tabIndex === 0 && document.activeElement === table;
		})()`); !focused {
			t.Errorf("%s: the table cannot be focused", path)
			continue
		}
		b.Type("", kb.ArrowRight)
		harness.Eventually(t, soon, "the table of "+path+" to scroll by keyboard", func() error {
			if at := harness.Evaluate[float64](b, `document.querySelector("main .table-responsive").scrollLeft`); at <= 0 {
				return fmt.Errorf("it is at %v", at)
			}
			return nil
		})
	}
}

// TestControlsOfSelectedJobsStayInSight while a list is scrolled.
func TestControlsOfSelectedJobsStayInSight(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	i.put(t, "shop.gone", harness.Status(http.StatusGone), nil)
	for n := range 30 {
		i.MustPush(t, "shop.gone", M{"id": fmt.Sprint("gone-", n), "body": n})
	}
	harness.Eventually(t, soon, "the jobs to be dead", func() error {
		return harness.Equal("dead", i.MustStats(t, "shop.gone").Dead, 30)
	})
	b := i.signIn(t)
	for _, path := range []string{"/dead", "/topics/shop.gone?tab=jobs&state=dead"} {
		for _, width := range []int64{390, 1440} {
			b.Size(width, 600)
			b.Open(path)
			b.Click("tbody input[name=job]")
			harness.Eventually(t, soon, "the controls at the list's end", func() error {
				top := harness.Evaluate[float64](b, `(() => {
					[...document.querySelectorAll("tbody tr")].at(-1).scrollIntoView({ block: "end" });
					return document.querySelector(".wk-bulk").getBoundingClientRect().top;
				})()`)
				if top < 0 || top > 100 {
					return fmt.Errorf("%s at %d: they are at %v", path, width, top)
				}
				return nil
			})
		}
	}
}
