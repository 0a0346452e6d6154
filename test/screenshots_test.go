package test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/test/harness"
)

// pictures are those of the documents.
var pictures = map[string]struct{ scene, path string }{
	"overview": {"quiet", "/"}, "topic": {"quiet", "/topics/shop.close"}, "bad-day": {"bad", "/"},
}

// views are how each page is shown.
var views = []struct {
	width    int64
	theme    string
	language string
}{
	{390, "light", "en"}, {390, "dark", "en"}, {1440, "light", "en"}, {1440, "dark", "en"}, {1440, "light", "zh-CN"},
}

// quietPages are those that the quiet day has besides pages.
var quietPages = []string{
	"/topics/shop.close?tab=jobs&state=done", "/topics/shop.close/jobs/done-1", "/topics/film.render",
	"/topics/film.render?tab=jobs&state=running", "/topics/film.render/jobs/film-1", "/audit?object=topic/shop.*",
	"/alerts/settings", "/shards/-/new", "/shards/redis-1", "/tasks/1", "/search?id=order-1", "/nothing",
}

// badPages are the pages that a bad day changes.
var badPages = []string{
	"/", "/topics", "/topics/payments.capture", "/topics/payments.capture?tab=attempts",
	"/topics/payments.capture?tab=forecast", "/topics/payments.capture?tab=jobs&state=dead",
	"/topics/payments.capture/jobs/failed-1", "/topics/mail.review", "/topics/crm.sync", "/topics/stock.sync",
	"/topics/stock.sync?tab=forecast", "/topics/stock.release", "/dead", "/deliveries", "/shards", "/alerts",
	"/alerts/deliveries", "/processes", "/audit", "/search?id=failed-1",
}

// TestScreenshots takes pictures of the admin on a quiet and on a bad day: make screenshots.
//   - WAKECALL_SCREENSHOTS: a directory for every page
//   - WAKECALL_PICTURES: a directory for those of the documents
//   - WAKECALL_SCREENSHOTS_SCENE: quiet or bad; empty: both
//   - WAKECALL_SCREENSHOTS_ONLY: an expression that the names must match
func TestScreenshots(t *testing.T) {
	if os.Getenv("WAKECALL_SCREENSHOTS") == "" && os.Getenv("WAKECALL_PICTURES") == "" {
		t.Skip("neither WAKECALL_SCREENSHOTS nor WAKECALL_PICTURES names a directory")
	}
	for scene, play := range map[string]func(*testing.T){"quiet": quietDay, "bad": badDayPictures} {
		if only := os.Getenv("WAKECALL_SCREENSHOTS_SCENE"); only == "" || only == scene {
			t.Run(scene, func(t *testing.T) {
				t.Parallel()
				play(t)
			})
		}
	}
}

// takePictures stores the pictures of a scene.
func takePictures(t *testing.T, b *harness.Browser, scene string, shots []string) {
	t.Helper()
	only := regexp.MustCompile(os.Getenv("WAKECALL_SCREENSHOTS_ONLY"))
	take := func(file, shot string) {
		if !only.MatchString(filepath.Base(file)) {
			return
		}
		if _, is := scenes[shot]; is {
			openScene(t, b, shot)
		} else {
			settled(t, b, shot)
		}
		b.Screenshot(file)
	}
	if dir := os.Getenv("WAKECALL_PICTURES"); dir != "" {
		b.Size(1280, 860)
		for name, p := range pictures {
			if p.scene == scene {
				take(filepath.Join(dir, name+".webp"), p.path)
			}
		}
	}
	dir := os.Getenv("WAKECALL_SCREENSHOTS")
	if dir == "" {
		return
	}
	dir = filepath.Join(dir, scene)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		b.Speak(v.language)
		b.Dark(v.theme == "dark")
		b.Size(v.width, 900)
		for _, shot := range shots {
			take(filepath.Join(dir, fmt.Sprintf("%s-%d-%s-%s.png", nameOf(shot), v.width, v.theme, v.language[:2])), shot)
		}
	}
}

// nameOf returns a page's address as part of a file name.
func nameOf(path string) string {
	if path == "/" {
		return "overview"
	}
	return strings.Trim(regexp.MustCompile(`[^a-z0-9.]+`).ReplaceAllString(path, "-"), "-")
}

// scenes are pages after a click.
var scenes = map[string]struct{ path, fill, click string }{
	"import":    {"/topics", "", `.page-header button[data-bs-toggle=dropdown]`},
	"confirm":   {"/dead", "", `#wk-dead-chosen [formaction$="/dead/delete"]`},
	"mistakes":  {"/topics/-/new", "input[name=name]", `main form button[type=submit]`},
	"new-token": {"/access", "#t-name", `form[action$="/access/tokens"] .btn-primary`},
}

// scenesIn lists the pages after a click that a scene has: some need dead jobs.
func scenesIn(scene string) (names []string) {
	for name := range scenes {
		if (name == "confirm") == (scene == "bad") {
			names = append(names, name)
		}
	}
	return names
}

// openScene opens a page and clicks.
func openScene(t *testing.T, b *harness.Browser, name string) {
	t.Helper()
	s := scenes[name]
	settled(t, b, s.path)
	harness.Evaluate[int](b, `document.querySelectorAll("details").forEach(d => d.open = true) ||
		document.querySelectorAll("input[name=rights]").forEach(r => r.checked = true) || 0`)
	if s.fill != "" {
		b.Fill(s.fill, "Ann's")
		harness.Evaluate[int](b, `document.querySelectorAll("form").forEach(f => f.noValidate = true) || 0`)
		b.Submit(s.click)
		return
	}
	b.Click(s.click)
}

// settled opens a page and waits until its charts are drawn.
func settled(t *testing.T, b *harness.Browser, path string) {
	t.Helper()
	b.Open(path)
	harness.Eventually(t, soon, "the charts of "+path, func() error {
		missing := harness.Evaluate[int](b,
			`[...document.querySelectorAll("[data-chart],[data-chart-json]")].filter(e => e.offsetParent && !e.querySelector("canvas")).length`)
		return harness.Equal("charts that are not drawn", missing, 0)
	})
}

// agree checks that the pages do not contradict themselves.
func (s *shopDay) agree(b *harness.Browser) {
	s.t.Helper()
	reader, sums := history.Reader{Store: history.NewStore(s.r.DB())}, map[string]int64{}
	for _, x := range s.topics {
		p, err := reader.Series(ctx, x.name, "15m")
		s.must(err)
		sums["pushed"] += p.Sums["pushed"]
		sums["delivered"] += p.Sums["delivered"]
		for i, late := range p.Values["p50"] {
			if late != nil && p.Value("p99", i) < *late {
				s.t.Errorf("%s: p99 %v < p50 %v", x.name, p.Value("p99", i), *late)
			}
		}
	}
	all, err := reader.Series(ctx, history.AllTopics, "15m")
	s.must(err)
	for name, sum := range sums { // minutes of topics, and tens of seconds of all
		if is := all.Sums[name]; math.Abs(float64(sum-is)) > 0.1*float64(is) {
			s.t.Errorf("%s in 15 minutes: %d by topics, %d of all", name, sum, is)
		}
	}
	b.Open("/topics?per=100")
	type row struct{ Name, Text string }
	rows := harness.Evaluate[[]row](b, `[...document.querySelectorAll("main tbody tr")].map(
		r => ({name: r.querySelector("a")?.textContent.trim(), text: r.innerText}))`)
	if len(rows) < len(s.topics) {
		s.t.Errorf("the list has %d topics, not %d", len(rows), len(s.topics))
	}
	for _, r := range rows {
		success := successIn.FindStringSubmatch(r.Text)
		if success == nil || !strings.Contains(strings.ToLower(r.Text), "healthy") {
			continue
		}
		if percent, _ := strconv.ParseFloat(success[1], 64); percent < 50 {
			s.t.Errorf("%s is healthy with a success of %s %%", r.Name, success[1])
		}
	}
	s.deadAgree(b)
	s.percentilesAgree(b)
}

// deadAgree checks that as many jobs are dead as the lists have.
func (s *shopDay) deadAgree(b *harness.Browser) {
	s.t.Helper()
	harness.Eventually(s.t, soon, "the dead jobs to agree", func() error {
		counted, listed := 0, 0
		for _, x := range s.topics {
			counted += s.MustStats(s.t, x.name).Dead
			listed += len(s.MustList(s.t, x.name, "dead"))
		}
		b.Open("/")
		shown := deadIn.FindStringSubmatch(b.Text())
		if shown == nil || counted != listed || strings.ReplaceAll(shown[1], ",", "") != fmt.Sprint(counted) {
			return fmt.Errorf("%d are counted, %d listed, %q shown", counted, listed, shown)
		}
		return nil
	})
}

// percentilesAgree checks that no percentile of the overview is above a higher one.
func (s *shopDay) percentilesAgree(b *harness.Browser) {
	s.t.Helper()
	lowest, highest := map[string]time.Duration{}, map[string]time.Duration{}
	for _, shown := range percentileIn.FindAllStringSubmatch(b.Text(), -1) {
		late, err := time.ParseDuration(strings.ReplaceAll(shown[2], " ", ""))
		s.must(err)
		highest[shown[1]] = max(highest[shown[1]], late)
		if l, seen := lowest[shown[1]]; !seen || late < l {
			lowest[shown[1]] = late
		}
	}
	for _, pair := range [][2]string{{"50", "95"}, {"95", "99"}, {"50", "99"}} {
		if above, seen := lowest[pair[1]]; seen && highest[pair[0]] > above {
			s.t.Errorf("p%s is %s, p%s is %s", pair[0], highest[pair[0]], pair[1], above)
		}
	}
}

var (
	successIn    = regexp.MustCompile(`(\d+(?:\.\d+)?)\s?%`)
	deadIn       = regexp.MustCompile(`Dead\s+([\d,]+)`)
	percentileIn = regexp.MustCompile(`p(50|95|99)(?: 15 min)?\s+((?:[\d.]+(?:ms|h|m|s) ?)+)`)
)
