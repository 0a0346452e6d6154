package test

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// seen returns the text of an element if all of it is on the screen: within the window, and neither clipped nor covered
// by anything.
const seen = `(selector => {
	const e = document.querySelector(selector);
	if (!e) return "";
	for (const part of [e, ...e.querySelectorAll("*")]) {
		const r = part.getBoundingClientRect();
		if (!part.checkVisibility() || r.top < 0 || r.left < 0 || r.bottom > innerHeight || r.right > innerWidth) return "";
		if (!e.contains(document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2))) return "";
		for (let by = part.parentElement; by; by = by.parentElement) {
			const clip = by.getBoundingClientRect();
			if (getComputedStyle(by).overflowY !== "visible" && by !== document.body &&
				(r.bottom > clip.bottom + 1 || r.right > clip.right + 1)) return "";
		}
	}
	return e.innerText;
})`

var worst = regexp.MustCompile(`^2 topics of (\w+): the endpoint (?:returns (\d+)|times out)\s+` +
	`Since .* ago .*· ([\d,]+) jobs wait`)

// triage: on a bad day of 44 topics the first screen of the overview says, without a click and without scrolling, what
// the worst cause is, whose topics they are, when the first of them failed, and how many jobs wait. Red is only what
// somebody has to act on, and on a phone nothing scrolls sideways.
func (d *badDay) triage() {
	axe, err := os.ReadFile("testdata/axe.min.js")
	must(d.t, err)
	b := d.signIn(d.t)
	said := harness.Evaluate[string](b, seen+`("#wk-problems .list-group-item")`)
	found := worst.FindStringSubmatch(said)
	if found == nil {
		d.t.Errorf("the first problem on the screen is %q:\n%s", said, b.Text())
		return
	}
	since := harness.Evaluate[time.Time](b, `document.querySelector("#wk-problems time").dateTime`)
	waiting := map[string]int{}
	for _, topic := range failing {
		s, err := d.Stats(ctx, topic)
		must(d.t, err)
		waiting[ownerOf[topic]] += s.Ready
		if ownerOf[topic] == found[1] {
			first := d.endpoint.Calls(topic)[0].At
			if since.Sub(first).Abs() > 20*time.Second {
				d.t.Errorf("%s failed first at %s, but the overview says since %s", topic, first, since)
			}
		}
	}
	jobs, _ := strconv.Atoi(strings.ReplaceAll(found[3], ",", ""))
	for owner, n := range waiting {
		if n > jobs+jobs/10+10 || owner == found[1] && n < jobs-jobs/10-10 {
			d.t.Errorf("the worst is %q, but of %s %d jobs wait", said, owner, n)
		}
	}
	for _, path := range []string{"/", "/alerts"} {
		for _, dark := range []bool{false, true} {
			b.Dark(dark)
			b.Size(1440, 900)
			b.Open(path)
			for _, f := range b.Axe(string(axe)) {
				d.t.Errorf("%s: axe finds %s: %v", path, f.Help, f.Nodes)
			}
			b.Size(390, 844)
			b.Open(path)
			if wide := b.Overflow(); wide > 0 {
				d.t.Errorf("%s is %d pixels too wide for a phone", path, wide)
			}
		}
	}
	b.Size(1440, 900)
	b.Dark(false)
	for _, path := range []string{
		"/", "/alerts", "/topics", "/topics/" + failing[0], "/topics/" + failing[0] + "?tab=jobs&state=dead",
		"/topics/" + failing[0] + "?tab=attempts", "/topics/fine.01", "/dead", "/deliveries", "/schedules", "/tasks",
		"/shards", "/processes", "/audit", "/push",
	} {
		settled(d.t, b, path)
		if red := harness.Evaluate[[]string](b, `(`+redOf+`)()`); len(red) > 0 {
			d.t.Errorf("%s has red where nobody has to act: %q", path, red)
		}
	}
	b.Open("/alerts")
	if top := harness.Evaluate[float64](b, `scrollTo(0, document.body.scrollHeight / 3),
		document.querySelector(".wk-controls").getBoundingClientRect().top`); top < 0 {
		d.t.Errorf("the controls of the alerts are scrolled to %v", top)
	}
}

// redOf returns the texts of the page's elements that are red, other than problems that are critical and open.
const redOf = `() => {
	const reds = new Set(["text-red", "bg-red-lt", "bg-red", "text-danger", "btn-danger"].flatMap(name => {
		const probe = document.body.appendChild(document.createElement("i"));
		probe.className = name;
		const style = getComputedStyle(probe), found = [style.color, style.backgroundColor];
		probe.remove();
		return found;
	}));
	for (const plain of ["rgba(0, 0, 0, 0)", getComputedStyle(document.body).color, "rgb(255, 255, 255)"]) reds.delete(plain);
	const acts = /^(breaker open|failing|no worker|no consumer|shard down|critical alert|critical)$/;
	return [...document.querySelectorAll("main *")].filter(e => e.checkVisibility() && !e.closest(
		"#wk-problems.border-red, .wk-controls, .alert-danger, [data-kind=critical], .wk-mark, canvas") && !acts.test(e.innerText)).filter(e => {
		const style = getComputedStyle(e);
		return (e.childElementCount === 0 && reds.has(style.color)) || reds.has(style.backgroundColor) ||
			(style.borderTopWidth !== "0px" && reds.has(style.borderTopColor));
	}).map(e => e.outerHTML.slice(0, 200));
}`

// TestOverviewOnAPhoneWithoutAShard: while a shard does not respond, neither the page nor the totals at its top scroll
// sideways, the totals have success and lateness, and the menu's button shows the number of problems.
func TestOverviewOnAPhoneWithoutAShard(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	redis := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(redis))
	i.put(t, "shop.close", harness.Status(http.StatusOK), nil)
	i.MustPush(t, "shop.close", M{"body": 1})
	b := i.signIn(t)
	b.Size(390, 844)
	b.Open("/topics")
	b.Shows(soon, "Success 15 min\n100%", "Late p99 15 min")
	redis.Pause()
	defer redis.Resume()
	for _, path := range []string{"/", "/alerts"} {
		b.Open(path)
		b.Shows(soon, "without redis-1", "Success 15 min", "Late p99 15 min")
		harness.Eventually(t, soon, path+" to show the number of problems at the menu", func() error {
			return harness.Equal("red badges", harness.Evaluate[int](b,
				`document.querySelectorAll(".navbar-toggler .badge.bg-red:not([hidden])").length`), 1)
		})
		wide := harness.Evaluate[int](b, `(s => s.scrollWidth - s.clientWidth)(document.querySelector(".wk-strip"))`)
		if page := b.Overflow(); page > 0 || wide > 0 {
			t.Errorf("%s is %d pixels too wide, its totals %d", path, page, wide)
		}
	}
}
