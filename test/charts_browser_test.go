package test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/test/harness"
)

// TestFiftyAlertsInAChart: however many alerts began in the range of a page, a chart has one band and its handles do
// not overlap; the list below it has them all. Red is only what is critical and open.
func TestFiftyAlertsInAChart(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	i.put(t, "shop.close", harness.Status(http.StatusOK), nil)
	r := i.opened(t)
	alerts := alert.NewStore(r.DB())
	for n := range 50 {
		began := time.Now().Add(-time.Duration(n) * 15 * time.Second)
		a := alert.Alert{
			Key: fmt.Sprint("topic/t", n), Topic: fmt.Sprint("t", n), Kind: "breaker", Severity: alert.Warning, BeganAt: began,
			Causes: []alert.Cause{{Kind: "breaker", Severity: alert.Warning, N: 12, Answer: "500"}},
		}
		if n%2 == 1 {
			a.EndedAt = new(began.Add(20 * time.Second))
		}
		if err := alerts.Save(t.Context(), &alert.Changes{Alerts: []*alert.Alert{&a}}); err != nil {
			t.Fatal(err)
		}
	}
	b := i.signIn(t)
	settled(t, b, "/")
	type seen struct {
		Bands, Handles, Listed, Longest int
		Overlaps                        bool
		Colors                          []string
	}
	harness.Eventually(t, soon, "the alerts in the charts", func() error {
		s := harness.Evaluate[seen](b, `(() => {
			const chart = document.querySelector("[data-chart]");
			const handles = [...chart.querySelectorAll(".wk-mark")];
			const at = handles.map(h => h.getBoundingClientRect()).sort((a, b) => a.left - b.left);
			return {
				Bands: chart.querySelectorAll(".wk-mark-band").length, Handles: handles.length,
				Listed: document.querySelectorAll("[data-mark]").length,
				Longest: Math.max(0, ...handles.map(h => h.querySelectorAll("span > span").length)),
				Overlaps: at.some((r, i) => i > 0 && r.left < at[i - 1].right),
				Colors: [...new Set([...chart.querySelectorAll(".wk-mark, .wk-mark-band")]
					.map(e => getComputedStyle(e).getPropertyValue("--wk-mark")))],
			};
		})()`)
		if s.Listed < 50 || s.Handles < 2 || s.Bands != 1 || s.Overlaps || s.Longest > 6 {
			return fmt.Errorf("the chart has %+v", s)
		}
		red := harness.Evaluate[string](b, `getComputedStyle(document.body).getPropertyValue("--tblr-red")`)
		if slices.Contains(s.Colors, red) {
			return fmt.Errorf("no alert is critical, but colors are %q", s.Colors)
		}
		return nil
	})
}

// TestAHiddenTabAsksNothing: neither a stream nor polling goes on, and both resume when the tab is shown.
func TestAHiddenTabAsksNothing(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	i.put(t, "shop.close", harness.Status(http.StatusOK), nil)
	i.MustPush(t, "shop.close", M{"id": "later", "delay": "1h", "body": 1})
	b := i.signIn(t)
	settled(t, b, "/topics/shop.close/jobs/later") // it polls each second
	hide := func(hidden bool) {
		harness.Evaluate[chromedp.Void](b, fmt.Sprintf(`(() => {
			Object.defineProperty(document, "hidden", { configurable: true, get: () => %t });
			document.dispatchEvent(new Event("visibilitychange"));
			performance.clearResourceTimings();
		})()`, hidden))
	}
	asked := func() int {
		return harness.Evaluate[int](b, `performance.getEntriesByType("resource").length`)
	}
	hide(true)
	began := harness.Evaluate[float64](b, `performance.now()`)
	harness.Eventually(t, soon, "three seconds", func() error {
		if harness.Evaluate[float64](b, `performance.now()`) < began+3000 {
			return fmt.Errorf("not over")
		}
		return nil
	})
	if n := asked(); n > 1 { // one that was under way
		t.Errorf("the hidden tab made %d requests", n)
	}
	hide(false)
	harness.Eventually(t, soon, "requests of the tab", func() error {
		if asked() == 0 {
			return fmt.Errorf("none")
		}
		return nil
	})
}
