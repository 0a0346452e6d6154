package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/wakecall/wakecall/test/harness"
)

// TestTheChartsOfAPageShareATimeline: the crosshair is in all charts, dragging in one selects the range of all and puts
// it into the address, which a link and the way back obey; events are marked, with a text at the pointer, at the
// keyboard's focus and in a list.
func TestTheChartsOfAPageShareATimeline(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	i.put(t, "shop.close", harness.Status(http.StatusOK), M{"max_in_flight": 7})
	i.put(t, "shop.close", harness.Status(http.StatusOK), M{"max_in_flight": 9})
	b := i.signIn(t)
	settled(t, b, "/")
	b.Shows(soon, "topic/shop.close: max_in_flight 7 → 9")

	spot := func(share float64) []float64 {
		return harness.Evaluate[[]float64](b, fmt.Sprintf(`(() => {
			const over = document.querySelector("[data-chart] .u-over");
			over.scrollIntoView({ block: "center", behavior: "instant" });
			const r = over.getBoundingClientRect();
			return [r.left + r.width * %v, r.top + r.height / 2];
		})()`, share))
	}
	at := spot(0.5)
	b.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
	harness.Eventually(t, soon, "the crosshair to be in all charts", func() error {
		times := harness.Evaluate[[]string](b,
			`[...document.querySelectorAll("[data-chart]")].map(e => e.querySelector(".u-value").innerText)`)
		if len(times) != 3 || times[0] == "" || times[1] != times[0] || times[2] != times[0] {
			return fmt.Errorf("their times are %q", times)
		}
		return nil
	})

	const tips = `[...document.querySelectorAll(".wk-mark")].map(m => [m, getComputedStyle(m.firstChild).display])
		.filter(([, d]) => d !== "none").map(([m]) => m.innerText).join()`
	harness.Evaluate[chromedp.Void](b, `document.querySelector("[data-chart] .wk-mark[tabindex='0']").focus()`)
	harness.Eventually(t, soon, "the event to be told at the focus", func() error {
		if shown := harness.Evaluate[string](b, tips); !strings.Contains(shown, "max_in_flight 7 → 9") {
			return fmt.Errorf("the page tells %q", shown)
		}
		return nil
	})
	harness.Evaluate[chromedp.Void](b, `document.activeElement.blur()`)

	left, right := spot(0.25), spot(0.75)
	b.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, left[0], left[1]),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, left[0], left[1], chromedp.ButtonLeft),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, right[0], right[1], chromedp.ButtonLeft),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, right[0], right[1], chromedp.ButtonLeft))
	length := func() float64 {
		return harness.Evaluate[float64](b, `(() => { const q = new URLSearchParams(location.search);
			return (new Date(q.get("to")) - new Date(q.get("from"))) / 60000 || 0 })()`)
	}
	harness.Eventually(t, soon, "the address to have the range", func() error {
		if n := length(); n < 7 || n > 8 {
			return fmt.Errorf("it has %v minutes", n)
		}
		return nil
	})
	address := harness.Evaluate[string](b, `location.pathname + location.search`)
	settled(t, b, "/topics")
	settled(t, b, address)
	ranges := harness.Evaluate[[]string](b, `Promise.all([...document.querySelectorAll("[data-chart]")].map(async e => {
		const { at } = await (await fetch(e.dataset.chart)).json();
		return at[0] + " " + at[at.length - 1] + " " + ((at[at.length - 1] - at[0]) < 8 * 60);
	}))`, chromedp.EvalAwaitPromise)
	if len(ranges) != 3 || ranges[0] != ranges[1] || ranges[1] != ranges[2] || ranges[0][len(ranges[0])-4:] != "true" {
		t.Errorf("the charts show %q", ranges)
	}
	b.Submit(`[title="Zoom out"]`)
	if n := length(); n < 12 || n > 16 {
		t.Errorf("out of the selected range are %v minutes", n)
	}
	b.Submit(`[title="Back to the time up to now"]`)
	if n := length(); n != 0 {
		t.Errorf("after the way back the address has %v minutes", n)
	}
	for _, width := range []int64{390, 1440} {
		b.Size(width, 900)
		for _, path := range []string{address, "/topics/shop.close" + address[1:]} {
			settled(t, b, path)
			if n := b.Overflow(); n > 0 {
				t.Errorf("%s at %d is %d pixels too wide", path, width, n)
			}
		}
	}
}
