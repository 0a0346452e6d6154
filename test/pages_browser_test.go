package test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/wakecall/wakecall/test/harness"
)

// manyTopics adds twenty topics; one of them is paused and has a ready job.
func (i *installation) manyTopics(t *testing.T) {
	t.Helper()
	for n := range 20 {
		i.MustPutTopic(t, fmt.Sprintf("many.%02d", n), M{"callback_url": i.endpoint.URL("/many")})
	}
	i.MustPutTopic(t, "many.00", M{"callback_url": i.endpoint.URL("/many"), "state": "paused"})
	i.MustPush(t, "many.00", M{"body": 1})
	i.MustPush(t, "shop.close", M{"id": strings.Repeat("a-long-id", 14) + "..", "body": 1, "delay": "1h"})
}

// firstScreen: at 1440 x 900 the overview shows problems, late topics and upcoming jobs, and the list shows twenty
// topics; at 2560 there are two columns. The title of the tab and the menu count the problems.
func (i *installation) firstScreen(t *testing.T, b *harness.Browser) {
	b.Size(1440, 900)
	b.Dark(false)
	harness.Eventually(t, soon, "the overview to have its data", func() error {
		settled(t, b, "/")
		if title := harness.Evaluate[string](b, `document.title`); !strings.HasPrefix(title, "(") {
			return fmt.Errorf("the title is %q", title)
		}
		below := harness.Evaluate[[]string](b, `["#wk-problems .list-group-item", ".wk-side canvas", ".wk-first canvas",
			".wk-tiles", "[data-count-of=dead]:not([hidden])"].flatMap(s => {
				const e = document.querySelector(s);
				return !e || !e.offsetParent ? [s + " is missing"] : e.getBoundingClientRect().bottom > 900 ? [s + " is below"] : [];
			})`)
		if len(below) > 0 {
			return fmt.Errorf("the first screen shows %q", below)
		}
		return nil
	})
	b.Open("/topics")
	if n := harness.Evaluate[int](b,
		`[...document.querySelectorAll("td.wk-topic")].filter(e => e.getBoundingClientRect().bottom <= 900).length`); n < 20 {
		t.Errorf("%d topics are on the first screen", n)
	}
	for _, width := range []int64{1280, 1440} {
		b.Size(width, 900)
		b.Open("/topics")
		if over := harness.Evaluate[int](b, `(e => e.scrollWidth - e.clientWidth)(document.querySelector(".table-responsive"))`); over > 0 {
			t.Errorf("at %d the topics are %d pixels too wide", width, over)
		}
	}
	b.Size(2560, 900)
	b.Open("/")
	if n := harness.Evaluate[int](b,
		`getComputedStyle(document.querySelector(".wk-first")).gridTemplateColumns.split(" ").length`); n != 2 {
		t.Errorf("at 2560 there are %d columns", n)
	}
}

// nothingIsHidden: no button covers another one, a long id leaves room for the due time, an error has more than a word
// per line, and on a phone the re-drive is within two screens.
func (i *installation) nothingIsHidden(t *testing.T, b *harness.Browser) {
	for _, width := range []int64{390, 768, 1440} {
		b.Size(width, 900)
		for _, path := range []string{"/topics", "/topics/shop.close", "/topics/shop.close/jobs/order-1", "/shards",
			"/dead"} {
			b.Open(path)
			over := harness.Evaluate[[]string](b, `(() => {
				const all = [...document.querySelectorAll("main .btn, .wk-tools .btn")].filter(e => e.checkVisibility()).map(e => [e.innerText || e.ariaLabel, e.getBoundingClientRect()]);
				return all.flatMap(([a, p], i) => all.slice(i + 1).filter(([, q]) =>
					p.left < q.right - 2 && q.left < p.right - 2 && p.top < q.bottom - 2 && q.top < p.bottom - 2).map(([b]) => a + " and " + b));
			})()`)
			if len(over) > 0 {
				t.Errorf("%s at %d: one covers the other: %q", path, width, over)
			}
		}
		b.Open("/topics/mail.welcome?tab=attempts")
		b.Shows(soon, "500")
		if narrow := harness.Evaluate[float64](b, `document.querySelector("td.wk-break").clientWidth`); narrow < 150 {
			t.Errorf("at %d an error is %v wide", width, narrow)
		}
		b.Open("/topics/shop.close?tab=jobs&state=delayed&id=a-long-id")
		b.Shows(soon, "a-long-id")
		right := harness.Evaluate[float64](b,
			`document.querySelector("tbody .wk-id + td time").getBoundingClientRect().right`)
		if right > float64(width) {
			t.Errorf("at %d the due time ends at %v", width, right)
		}
	}
	b.Size(390, 844)
	b.Open("/dead")
	if top := harness.Evaluate[float64](b,
		`document.querySelector("#wk-dead-chosen").getBoundingClientRect().top`); top > 2*844 {
		t.Errorf("on a phone the re-drive is at %v", top)
	}
	b.Size(1440, 900)
}

// everybodyCanRead: old numbers have a contrast of 4.5:1, a table that is cut off can be scrolled by keyboard, links
// among words are underlined, a phone shows what needs somebody without scrolling, and a row takes at most 30 pixels.
func everybodyCanRead(t *testing.T, b *harness.Browser) {
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, dark := range []bool{false, true} {
		b.Dark(dark)
		for _, path := range []string{"/", "/topics"} {
			b.Open(path)
			harness.Evaluate[chromedp.Void](b, `document.body.classList.add("wk-offline"),
				document.querySelectorAll(".wk-strip dl, main table").forEach(e => e.classList.add("wk-old"))`)
			for _, f := range b.Axe(string(axe), "color-contrast") {
				t.Errorf("%s with old numbers, dark %v: %s: %v", path, dark, f.Help, f.Nodes)
			}
		}
	}
	b.Dark(false)
	for _, width := range []int64{390, 768} {
		b.Size(width, 900)
		b.Open("/topics")
		cut := harness.Evaluate[[]string](b, `[...document.querySelectorAll("th")].slice(0, 4)
			.filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.innerText)`)
		if len(cut) > 0 {
			t.Errorf("at %d, %q are cut off", width, cut)
		}
		for _, path := range pages {
			b.Open(path)
			wrong := harness.Evaluate[[]string](b, `[
				...[...document.querySelectorAll(".table-responsive")].filter(e => e.scrollWidth > e.clientWidth && (location.pathname.match("audit|access|shards|tasks") ||
					e.tabIndex != 0 || e.role != "region" || !e.ariaLabel)).map(e => "a table is cut off: " + e.innerText.slice(0, 40)),
				...[...document.querySelectorAll("main a:not(.btn, .badge)")].filter(a => !a.closest("td, .nav, .pagination") && a.offsetParent &&
					[...a.parentNode.childNodes].some(n => n.nodeType == 3 && n.data.trim().length > 3) &&
					getComputedStyle(a).textDecorationLine != "underline").map(a => "a link is not underlined: " + a.outerHTML)]`)
			if len(wrong) > 0 {
				t.Errorf("%s at %d: %q", path, width, wrong)
			}
		}
	}
	b.Size(1440, 900)
	b.Open("/topics/shop.close?tab=jobs&state=done")
	if high := harness.Evaluate[float64](b, `(rows => rows.reduce((sum, r) => sum + r.offsetHeight, 0) / rows.length)
		([...document.querySelectorAll("tbody tr")])`); high > 30 {
		t.Errorf("a job takes %v pixels", high)
	}
	b.Open("/topics/mail.welcome?tab=attempts")
	b.Shows(soon, "500")
	if high := harness.Evaluate[int](b, `document.querySelector(".card-header").offsetHeight`); high > 45 {
		t.Errorf("the header of a card takes %d pixels", high)
	}
	if red := harness.Evaluate[int](b,
		`document.querySelectorAll("td .bg-red-lt, td.text-red, td .text-red").length`); red > 0 {
		t.Errorf("%d failed attempts are red", red)
	}
}

// chartsAreTrue: an isolated point is drawn, times are in the chosen zone, on pages and in charts, and the legend keeps
// the values under the pointer when new numbers arrive.
func chartsAreTrue(t *testing.T, b *harness.Browser) {
	b.Open("/")
	harness.Evaluate[chromedp.Void](b,
		`document.querySelectorAll("[name=choice]").forEach(e => { if (e.id === "wk-zone") e.value = "Asia/Shanghai" })`)
	b.Click(`.wk-tools [data-bs-toggle=dropdown]`)
	b.Submit(`.wk-tools #wk-zone + .btn`)
	harness.Evaluate[chromedp.Void](b, `(() => {
		const main = document.querySelector("main"), at = Date.UTC(2026, 10, 22, 2) / 1000;
		main.innerHTML = '<time datetime="2026-11-22T02:00:00Z"><span data-at="full"></span></time><div class="wk-chart" id="lonely"></div>';
		document.querySelector("#lonely").dataset.chartJson = JSON.stringify({ at: [0, 1, 2, 3, 4].map(n => at + n * 60),
			series: [{ label: "one", color: "red", values: [null, null, 7, null, null] }] });
		main.dispatchEvent(new Event("htmx:afterSettle", { bubbles: true }));
	})()`)
	b.Shows(soon, "2026-11-22 10:00:00", "10:04")
	red := harness.Evaluate[int](b, `(() => {
		const c = document.querySelector("#lonely canvas"), p = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let i = 0; i < p.length; i += 4) if (p[i] > 180 && p[i + 1] < 100 && p[i + 2] < 100 && p[i + 3] > 100) n++;
		return n;
	})()`)
	if red < 9 {
		t.Errorf("%d pixels of the isolated point are drawn", red)
	}
	settled(t, b, "/")
	legend := func() string {
		return harness.Evaluate[string](b,
			`document.querySelector(".wk-first .wk-chart[data-chart] .u-legend .u-value").innerText`)
	}
	at := harness.Evaluate[[]float64](b, `(() => { const c = document.querySelector(".wk-first .wk-chart[data-chart]"); c.dataset.chartEvery = 5;
		const r = c.querySelector(".u-over").getBoundingClientRect(); return [r.left + r.width / 3, r.top + r.height / 2] })()`)
	b.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
	began := harness.Evaluate[string](b, `document.querySelector(".wk-first .wk-chart[data-chart]").dataset.loaded`)
	harness.Eventually(t, soon, "the chart to get new numbers", func() error {
		if now := harness.Evaluate[string](b,
			`document.querySelector(".wk-first .wk-chart[data-chart]").dataset.loaded`); now == began {
			return fmt.Errorf("it has those of %s", now)
		}
		return nil
	})
	harness.Evaluate[int](b, `new Promise(then => setTimeout(() => then(1), 300))`, chromedp.EvalAwaitPromise)
	pointed := legend()
	b.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 5, 5))
	harness.Eventually(t, soon, "the legend to show the newest numbers", func() error {
		if now := legend(); now == pointed {
			return fmt.Errorf("it shows %q, as under the pointer", now)
		}
		return nil
	})
}

// cardsAreSavedAlone: the values typed into other cards stay, and a test shows its result.
func (i *installation) cardsAreSavedAlone(t *testing.T, b *harness.Browser) {
	b.Open("/alerts/settings")
	b.Fill(`#f-recipients`, "typed@example.com")
	b.Fill(`[name="webhooks.name"]`, "chat")
	b.Fill(`[name="mail.host"]`, "127.0.0.1")
	b.Fill(`[name="mail.port"]`, "1")
	b.Fill(`[name="mail.from"]`, "w@example.com")
	b.Fill(`#f-to`, "ops@example.com")
	b.Click(`#wk-mail button[hx-post]`)
	b.Shows(soon, "refused")
	b.Click(`#wk-mail button[type=submit]`)
	b.Shows(soon, "Settings saved.")
	b.Fill(`[name="webhooks.url"]`, i.endpoint.URL("/chat"))
	b.Click(`#wk-webhooks form.card-body button[type=submit]`)
	b.Shows(soon, "http://127.0.0.1")
	b.Shows(soon, "Settings saved.")
	if !harness.Evaluate[bool](b, `(() => { const r = document.querySelector("#wk-flash .alert").getBoundingClientRect();
		return window.scrollY > 0 && r.top >= 0 && r.bottom <= innerHeight })()`) {
		t.Error("what became of a card below the first screen is not seen")
	}
	kept := harness.Evaluate[[]string](b,
		`[...document.querySelectorAll("#f-recipients, [name='mail.host'], [name='webhooks.name']")].map(e => e.value)`)
	if want := "127.0.0.1 typed@example.com "; strings.Join(kept, " ") != want {
		t.Errorf("the cards hold %q, want %q", kept, want)
	}
}

// aFormIsSentOnce: a second click while the first is under way sends nothing; the same form may be sent later.
func aFormIsSentOnce(t *testing.T, b *harness.Browser) {
	b.Open("/push")
	sent := harness.Evaluate[int](b, `(() => {
		let sent = 0;
		window.addEventListener("submit", (e) => { sent++; e.preventDefault(); });
		const form = document.querySelector("form.card");
		form.elements.topic.value = "shop.close";
		const click = () => form.requestSubmit();
		click(); click();
		window.dispatchEvent(new Event("pageshow"));
		click();
		return sent;
	})()`)
	if sent != 2 {
		t.Errorf("two clicks and another visit send a form %d times", sent)
	}
}

// searchByKeys: / and ctrl-K focus the search, which shows results while typing; ? lists the keys, except while typing.
func searchByKeys(t *testing.T, b *harness.Browser) {
	focused := func() bool { return harness.Evaluate[bool](b, `document.activeElement.id === "wk-search"`) }
	b.Open("/audit")
	b.Type("", "/")
	if !focused() {
		t.Error("/ does not focus the search")
	}
	harness.Evaluate[chromedp.Void](b, `document.activeElement.blur()`)
	b.Type("", "k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	if !focused() {
		t.Error("ctrl-K does not focus the search")
	}
	listed := func() bool { return harness.Evaluate[bool](b, `document.querySelector("#wk-keys").open`) }
	b.Type("", "?")
	if listed() {
		t.Error("? in the search box lists the keys")
	}
	harness.Evaluate[chromedp.Void](b, `document.activeElement.blur()`)
	b.Type("", "?")
	if !listed() || !strings.Contains(b.Text(), "Keyboard shortcuts") {
		t.Error("? does not list the keys")
	}
	b.Type("", kb.Escape)
	if listed() {
		t.Error("Esc does not close the list of keys")
	}
	b.Open("/audit")
	b.Type(`#wk-search`, "order-17")
	b.Shows(soon, "order-17")
	b.Submit(`#wk-found a[href$="/jobs/order-17"]`)
	b.Shows(soon, "order-17", "Delayed")
}

// aQuestionOutlivesLiveParts: a confirmed restart works even if a newer list would replace the one with its button
// while the dialog is open.
func aQuestionOutlivesLiveParts(b *harness.Browser) {
	b.Open("/processes")
	b.Click(`form[action$="/processes/restart"]:has([value=timer]) button`)
	harness.Evaluate[chromedp.Void](b, `document.addEventListener("live", (e) => {
		if (e.detail.name.startsWith("processes")) document.querySelector("[data-text]").textContent += " Newer.";
	})`)
	b.Shows(soon, "Newer.")
	b.Submit(`#wk-confirm [data-ok]`) // waits for the next page
}

// redriveOfAFilter: the action applies to the text in the filter field, even if it was not submitted; Enter in a typed
// confirmation confirms.
func (i *installation) redriveOfAFilter(t *testing.T, b *harness.Browser) {
	b.Open("/dead")
	b.Shows(soon, "6 jobs of one topic")
	b.Type(`#d-id`, "mail-1")
	b.Shows(soon, "1 job of one topic")
	b.Click(`#wk-dead-chosen .btn-primary`)
	b.Shows(soon, "Re-drive 1 job of one topic?", "mail.welcome (1)")
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "1 of 1")
	harness.Eventually(t, soon, "the re-drive to end, and its job to be dead again", func() error {
		b.Open("/dead?id=mail-2")
		if text := b.Text(); strings.Contains(text, "1 of 1") || !strings.Contains(text, "6 dead jobs") {
			return fmt.Errorf("the page shows %.1200s", text)
		}
		return nil
	})
	b.Click(`#wk-dead-chosen [formaction$="/dead/delete"]`)
	b.Type(`#wk-confirm-word`, "delete")
	harness.Evaluate[chromedp.Void](b, `window.wakecallBefore = true`)
	b.Type(`#wk-confirm-word`, "\r")
	harness.Eventually(t, soon, "the job to be deleted", func() error {
		s, err := i.Stats(ctx, "mail.welcome")
		if err != nil {
			return err
		}
		return harness.Equal("the dead jobs", s.Dead, 5)
	})
	b.Shows(soon, "1 of 1")
}
