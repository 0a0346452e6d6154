package test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/test/harness"
)

// signIn opens a browser and signs in as the administrator of the first start.
func (i *installation) signIn(t *testing.T) *harness.Browser {
	t.Helper()
	i.WaitRole("admin", 1)
	password, err := os.ReadFile(filepath.Join(i.Data, "admin-password"))
	if err != nil {
		t.Fatal(err)
	}
	b := harness.StartBrowser(t, i.AdminURL())
	b.Open("/login")
	b.Fill(`input[name=username]`, "admin")
	b.Fill(`input[name=password]`, strings.TrimSpace(string(password)))
	b.Submit(`button[type=submit]`)
	b.Shows(soon, "Overview")
	return b
}

// TestANewUserRegistersPushesWatchesAndRedrives goes all the way through the admin: a topic, a push, its callback, a
// failing endpoint, dead jobs, and their re-drive.
func TestANewUserRegistersPushesWatchesAndRedrives(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	b := i.signIn(t)
	i.endpoint.Set("/shop", harness.Status(http.StatusOK))

	b.Open("/topics/-/new")
	b.Fill(`input[name=name]`, "shop.close")
	b.Fill(`input[name=callback_url]`, i.endpoint.URL("/shop"))
	b.Fill(`input[name=max_attempts]`, "1")
	b.Submit(`main button[type=submit]`)
	b.Shows(soon, "shop.close", "New signing secret")

	b.Open("/push?topic=shop.close")
	b.Fill(`main input[name=id]`, "order-1")
	b.Fill(`textarea[name=body]`, `{"order": 1}`)
	b.Fill(`input[name=delay]`, "2s")
	b.Submit(`main button[type=submit]`)
	b.Shows(soon, "order-1", "Delayed")
	b.Open("/topics/shop.close?tab=ledger")
	i.endpoint.WaitCalls(t, "shop.close", 1)
	b.Shows(soon, "DELIVERED")

	i.endpoint.Set("/shop", harness.Status(http.StatusInternalServerError))
	b.Open("/push?topic=shop.close")
	b.Fill(`main input[name=id]`, "order-2")
	b.Fill(`textarea[name=body]`, `{"order": 2}`)
	b.Submit(`main button[type=submit]`)
	harness.Eventually(t, soon, "the job to be dead", func() error {
		s, err := i.Stats(ctx, "shop.close")
		if err != nil || s.Dead != 1 {
			return fmt.Errorf("%+v, %v", s, err)
		}
		return nil
	})
	b.Open("/topics/shop.close/jobs/order-2")
	b.Shows(soon, "Dead", "500")
	b.Open("/topics/shop.close?tab=attempts")
	harness.Eventually(t, soon, "the attempt to be listed", func() error {
		b.Open("/topics/shop.close?tab=attempts")
		if !strings.Contains(b.Text(), "order-2") {
			return fmt.Errorf("the page shows %.800s", b.Text())
		}
		return nil
	})

	i.endpoint.Set("/shop", harness.Status(http.StatusOK))
	b.Open("/dead?topic=shop.close")
	b.Shows(soon, "order-2")
	b.Click(`main input[name=job]`)
	b.Submit(`button[name=do][value=retry]`)
	i.endpoint.WaitCalls(t, "shop.close", 3)
	b.Open("/topics/shop.close?tab=ledger")
	b.Shows(soon, "The ledger adds up")
}

// pages lists all pages of the admin, with a topic and a job.
var pages = []string{
	"/", "/topics", "/topics/-/new", "/topics/shop.close", "/topics/shop.close?tab=jobs&state=delayed",
	"/topics/shop.close?tab=attempts", "/topics/shop.close?tab=ledger", "/topics/shop.close?tab=forecast",
	"/topics/shop.close?tab=push", "/topics/shop.close/edit", "/topics/shop.close/test",
	"/topics/shop.close/jobs/order-1", "/groups/customer-7", "/groups/none",
	"/schedules", "/schedules/-/new", "/schedules/shop.report", "/schedules/shop.report/edit",
	"/schedules/shop.report/backfill", "/schedules/mail.often",
	"/push", "/dead", "/deliveries", "/shards", "/alerts", "/access", "/audit", "/processes", "/tasks", "/account",
	"/search?id=nobody",
}

func (i *installation) furnished(t *testing.T) *harness.Browser {
	t.Helper()
	i.put(t, "shop.close", harness.Status(http.StatusOK), M{"title": "Close unpaid orders", "max_attempts": 1})
	i.put(t, "mail.welcome", harness.Status(http.StatusInternalServerError),
		M{"title": "Welcome mails <script>", "max_attempts": 1, "emails": []string{"a@b.example"}})
	for n := range 30 {
		i.Push(ctx, "shop.close",
			M{"id": fmt.Sprint("order-", n), "body": M{"order": n}, "delay": fmt.Sprint(3600+n*40, "s")})
		i.Push(ctx, "shop.close", M{"id": fmt.Sprint("done-", n), "body": M{"order": n}})
		if n < 6 {
			i.Push(ctx, "mail.welcome", M{"id": fmt.Sprint("mail-", n), "group": "customer-7", "body": M{"to": "x"}})
			i.Push(ctx, "shop.close", M{"id": fmt.Sprint("remind-", n), "group": "customer-7", "body": n, "delay": "1h"})
		}
	}
	i.scheduled(t)
	harness.Eventually(t, soon, "the jobs to be dead", func() error {
		s, err := i.Stats(ctx, "mail.welcome")
		if err != nil || s.Dead < 5 {
			return fmt.Errorf("%+v, %v", s, err)
		}
		return nil
	})
	return i.signIn(t)
}

// scheduled creates schedules of shop.close and mail.welcome.
func (i *installation) scheduled(t *testing.T) {
	t.Helper()
	for name, fields := range map[string]M{
		"shop.report": {"topic": "shop.close", "cron": "0 8 * * 1-5", "time_zone": "Europe/Berlin", "jitter": "30s"},
		"shop.clean":  {"topic": "shop.close", "cron": "0 */2 * * *", "time_zone": "Asia/Shanghai"},
		"shop.bill":   {"topic": "shop.close", "cron": "0 0 1 * *"},
		"shop.paused": {"topic": "shop.close", "every": "15m", "state": "paused"},
		"mail.often":  {"topic": "mail.welcome", "every": "1h"},
	} {
		fields["body"] = M{"of": name}
		i.MustDo(t, http.StatusCreated, http.MethodPut, "/v1/schedules/"+name, fields)
	}
}

// TestTheAdminInABrowser tests, with one installation, what only a browser can test.
func TestTheAdminInABrowser(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	b := i.furnished(t)
	i.manyTopics(t)
	i.everyPageIsSound(t, b)
	i.firstScreen(t, b)
	i.nothingIsHidden(t, b)
	everybodyCanRead(t, b)
	chartsAreTrue(t, b)
	i.cardsAreSavedAlone(t, b)
	aFormIsSentOnce(t, b)
	searchByKeys(t, b)
	aQuestionOutlivesLiveParts(b)
	i.redriveOfAFilter(t, b)
}

// everyPageIsSound: no errors in the console, no failed requests, no horizontal scrolling at 360 pixels, no serious
// findings of axe, in light and dark, in English and Chinese.
func (i *installation) everyPageIsSound(t *testing.T, b *harness.Browser) {
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	for n, path := range pages {
		for k, width := range []int64{1440, 1440, 390, 390} {
			if dark := k%2 == 1; harness.Long() || dark == ((n+k/2)%2 == 1) { // each width and theme in turn
				b.Dark(dark)
				b.Size(width, 800)
				b.Open(path)
				for _, f := range b.Axe(string(axe)) {
					t.Errorf("%s at %d, dark %v: axe finds %s (%s): %v", path, width, dark, f.ID, f.Help, f.Nodes)
				}
			}
		}
		b.Size(360, 740)
		if wide := b.Overflow(); wide > 0 {
			t.Errorf("%s is %d pixels too wide for 360", path, wide)
		}
	}
	b.Size(1440, 900)
	b.Dark(false)
	b.Open("/topics")
	b.Submit(`button[name=choice][value=dark]`)
	harness.Eventually(t, soon, "the dark theme", func() error {
		theme := harness.Evaluate[string](b, `document.documentElement.getAttribute("data-bs-theme")`)
		return harness.Equal("the theme", theme, "dark")
	})
	b.Submit(`button[name=choice][value=zh-Hans]`)
	for path, word := range map[string]string{"/": "总览", "/topics": "主题", "/topics/shop.close?tab=ledger": "账本平衡",
		"/push": "推送任务"} {
		b.Open(path)
		b.Shows(soon, word)
	}
	b.Submit(`button[name=choice][value=en]`)
	b.Submit(`button[name=choice][value=light]`)
}
