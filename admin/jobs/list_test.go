package jobs_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/store"
)

func TestAWrongCursorIsARequestsFault(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("look")
	for _, path := range []string{"/dead?topic=shop.close&cursor=zzz", "/topics/shop.close?tab=jobs&cursor=zzz",
		"/topics/shop.close?tab=jobs&state=ready&cursor=zzz~1"} {
		if status, body := s.Get(path); status != http.StatusBadRequest {
			t.Errorf("%s: %d\n%s", path, status, body)
		}
	}
}

// TestDelayedJobsAreListedByTheirTimes, over several pages, whatever the order of the pushes.
func TestDelayedJobsAreListedByTheirTimes(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	s.As("look")
	const jobs = 230
	var pushes []store.Push
	for i := range jobs { // some near, most far, each three hundred seconds after the one before
		delay := 40 + (i*337)%jobs*7
		pushes = append(pushes, store.Push{Topic: "shop.close", ID: fmt.Sprintf("due-%05d", delay), Body: []byte(`1`),
			Delay: time.Duration(delay) * time.Second})
	}
	for _, r := range q.PushBatch(t.Context(), pushes) {
		admintest.Must(t, r.Err)
	}
	var ids []string
	for path := "/topics/shop.close?tab=jobs&state=delayed"; path != ""; {
		body := s.Shows(path)
		for _, m := range regexp.MustCompile(`>(due-\d+)</a>`).FindAllStringSubmatch(body, -1) {
			ids = append(ids, m[1])
		}
		next := regexp.MustCompile(`href="([^"]*cursor=[^"]*)">Next`).FindStringSubmatch(body)
		if path = ""; next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if len(ids) != jobs || !slices.IsSorted(ids) {
		t.Errorf("%d of %d jobs, in order: %v\n%v", len(ids), jobs, slices.IsSorted(ids), ids)
	}
}

// TestTimesOfFormsAreInTheChosenZone: input is interpreted in that zone, and shown again as it was typed.
func TestTimesOfFormsAreInTheChosenZone(t *testing.T) {
	t.Parallel()
	died := time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC) // 10:00 in Shanghai
	q := admintest.NewDeadQueue("a", 1)
	q.Dead["a"][0].DeadAt = died
	s := admintest.OpenDead(t, q)
	path := "/dead?since=2026-11-22T09:30&until=2026-11-22T10:30"
	s.Shows(path, "0 jobs")
	s.Post("/zone", "choice", "Asia/Shanghai")
	s.Shows(path, "1 job of one topic", `value="2026-11-22T09:30"`, `data-zone="Asia/Shanghai"`)
	s.Post("/zone", "choice", "browser")
	at, err := url.Parse(s.URL)
	admintest.Must(t, err)
	s.Client.Jar.SetCookies(at, []*http.Cookie{{Name: "wakecall_browser_zone", Value: "Asia/Shanghai", Path: "/"}})
	s.Shows(path, "1 job of one topic", `data-zone="browser"`)
	if status, _ := s.Post("/zone", "choice", "Mars/Olympus"); status != http.StatusBadRequest {
		t.Errorf("a zone that does not exist got %d", status)
	}
}
