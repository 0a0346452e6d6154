package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var pagesGroup = group{
	name: "pages", about: "pages of the web admin with many topics and jobs",
	figures: []figure{{
		name: "slowest_page", title: "slowest page of the web admin, 5,000 topics, 1,000,000 jobs",
		unit: "ms", atMost: 200,
	}},
	measure: measurePages,
}

// pageTries is how often each page is fetched; the median counts.
const pageTries = 7

// adminPages are all pages and the parts that they load later, but for those of one job, task or token, downloads, and
// the count of what a filter matches, which takes up to its limit.
func adminPages(topic string) []string {
	return []string{
		"/", "/overview/ahead", "/overview/late",
		"/topics", "/topics?sort=delayed", "/topics?sort=health", "/topics?sort=pushed", "/topics?q=42", "/topics/-/new",
		"/topics/check/name?name=bench.new",
		"/topics/" + topic, "/topics/" + topic + "?tab=jobs&state=delayed", "/topics/" + topic + "?tab=ledger",
		"/topics/" + topic + "?tab=forecast", "/topics/" + topic + "?tab=attempts", "/topics/" + topic + "?tab=push",
		"/topics/" + topic + "/edit", "/topics/" + topic + "/test",
		"/search?id=nobody-has-this-id", "/push", "/dead", "/dead/count", "/tasks",
		"/shards", "/shards/-/new", "/shards/managed", "/shards/managed/edit", "/processes",
		"/alerts", "/alerts/deliveries", "/alerts/settings", "/audit", "/access", "/account",
		"/charts/rates", "/charts/backlog", "/charts/lateness", "/charts/memory", "/charts/ping",
	}
}

// measurePages fills an installation and takes the time of each page, in the first run.
func measurePages(ctx context.Context, s *suite) (raw []Raw, err error) {
	if s.pages != nil {
		return s.pages, nil
	}
	err = s.on(ctx, func(in *installation) error {
		if err := s.registerTopics(ctx, in, s.scale.pageTopics); err != nil {
			return err
		}
		topic := idleTopic(0)
		b := batch{topic: topic, token: in.token, size: 1000, delay: between(time.Hour, 20*time.Hour)}
		if err := s.fill(ctx, in, b, s.scale.memoryJobs); err != nil {
			return err
		}
		slowest, took, err := in.slowestPage(ctx, topic)
		if err != nil {
			return err
		}
		raw = []Raw{
			{
				Value:  slowest,
				Detail: map[string]any{"topics": s.scale.pageTopics, "jobs": s.scale.memoryJobs, "ms": took},
			},
		}
		s.pages = raw
		return nil
	})
	return raw, err
}

// slowestPage takes the time of each page.
func (in *installation) slowestPage(
	ctx context.Context, topic string,
) (slowest float64, took map[string]any, err error) {
	browser, err := in.signIn(ctx)
	if err != nil {
		return 0, nil, err
	}
	took = map[string]any{}
	for _, path := range adminPages(topic) {
		ms, err := in.page(ctx, browser, path)
		if err != nil {
			return 0, nil, err
		}
		took[path] = ms
		slowest = max(slowest, ms)
	}
	return slowest, took, nil
}

// signIn is a browser with the session of the administrator of the first start.
func (in *installation) signIn(ctx context.Context) (*http.Client, error) {
	password, err := os.ReadFile(filepath.Join(in.dir, "admin-password"))
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{Jar: jar, Timeout: time.Minute}
	form := url.Values{"username": {"admin"}, "password": {strings.TrimSpace(string(password))}}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		"http://"+in.admin+"/login",
		strings.NewReader(form.Encode()),
	)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := browser.Do(req)
	if err != nil {
		return nil, fmt.Errorf("signing in to the web admin: %w", err)
	}
	return browser, res.Body.Close()
}

// page is the median time of a page in milliseconds, to its last byte.
func (in *installation) page(ctx context.Context, browser *http.Client, path string) (float64, error) {
	var times []float64
	for range pageTries {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+in.admin+path, nil)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		res, err := browser.Do(req)
		if err != nil {
			return 0, fmt.Errorf("fetching %s of the web admin: %w", path, err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || strings.HasPrefix(res.Request.URL.Path, "/login") {
			return 0, fmt.Errorf(
				"fetching %s of the web admin: %s at %s: %v",
				path,
				res.Status,
				res.Request.URL.Path,
				err,
			)
		}
		times = append(times, float64(time.Since(began).Microseconds())/1000)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
