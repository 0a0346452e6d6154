package test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/harness"
)

// pictures are those of the documents: the scene, the page and whether it is dark.
var pictures = map[string]struct {
	scene, path string
	dark        bool
}{
	"overview": {"quiet", "/", false},
	"topic":    {"quiet", "/topics/shop.close", false},
	"bad-day":  {"bad", "/", false},
}

// views are how each page is shown.
var views = []struct {
	width    int64
	theme    string
	language string
}{
	{390, "light", "en"}, {390, "dark", "en"}, {1440, "light", "en"}, {1440, "dark", "en"}, {1440, "light", "zh-CN"},
}

// morePages are only for pictures: it takes a while until they have contents.
var morePages = []string{
	"/topics/mail.welcome?tab=attempts", "/topics/mail.welcome/jobs/mail-1", "/topics/shop.close?tab=jobs&state=done",
	"/topics/shop.close/jobs/done-1", "/topics/film.render", "/topics/film.render?tab=jobs&state=running",
	"/topics/film.render/jobs/film-1", "/audit?object=topic/shop.*", "/alerts/deliveries", "/alerts/settings",
	"/shards/-/new", "/shards/managed", "/tasks/1", "/search?id=order-1", "/nothing",
}

// badPages are the pages that a bad day changes.
var badPages = []string{
	"/", "/topics", "/topics/answers.500", "/topics/answers.500?tab=attempts", "/topics/answers.500?tab=forecast",
	"/topics/answers.500?tab=jobs&state=dead", "/topics/hangs", "/topics/refuses", "/topics/limited",
	"/topics/limited?tab=forecast", "/topics/paused", "/dead", "/shards", "/alerts", "/alerts/deliveries",
	"/processes", "/audit",
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
	for scene, play := range map[string]func(*testing.T){"quiet": quietDay, "bad": badDayScene} {
		if only := os.Getenv("WAKECALL_SCREENSHOTS_SCENE"); only == "" || only == scene {
			t.Run(scene, func(t *testing.T) {
				t.Parallel()
				play(t)
			})
		}
	}
}

func quietDay(t *testing.T) {
	i := start(t, harness.Options{})
	i.peopled(t)
	b := i.furnished(t)
	i.worked(t, b)
	b.Expect("/nothing") // a page that does not exist
	b.Expect("422")      // a form with mistakes
	i.busy(t, time.Minute)
	takePictures(t, b, "quiet", slices.Concat(pages, morePages, slices.Sorted(maps.Keys(scenes))))
}

func badDayScene(t *testing.T) {
	d := startBadDay(t, harness.StartRedis(t, harness.RedisOptions{}))
	d.register()
	d.began = time.Now()
	d.push()
	d.until(30)
	takePictures(t, d.signIn(t), "bad", badPages)
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
				b.Dark(p.dark)
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

// peopled creates the contents of the access and audit pages.
func (i *installation) peopled(t *testing.T) {
	t.Helper()
	key, err := seal.LoadKey(filepath.Join(i.Data, "secret-key"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(registry.Options{DSN: "sqlite:" + filepath.Join(i.Data, "registry.db"), SecretKey: key})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	users := account.NewStore(r)
	for name, role := range map[string]account.Role{"anna": account.RoleOperator, "wei": account.RoleOperator,
		"bob": account.RoleViewer} {
		must(users.CreateUser(ctx, "user/admin", name, "a password of "+name, role))
	}
	must(users.NoteSignIn(ctx, "anna", "10.1.4.23"))
	must(users.NoteSignIn(ctx, "bob", "10.1.4.77"))
	must(users.SetDisabled(ctx, "user/admin", "bob", true))
	_, _, err = r.CreateToken(
		ctx, "user/admin", "shop backend", []registry.Right{registry.RightPush, registry.RightRead},
		[]string{"shop.*"}, nil)
	must(err)
	for _, name := range []string{"shop.close", "shop.ship", "shop.refund", "crm.sync"} {
		x := registry.NewTopic(name)
		x.CallbackURL, x.Secrets, x.Owner = i.endpoint.URL("/"+name),
			[]string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
			"team-"+strings.SplitN(name, ".", 2)[0]
		x.Title = map[string]string{"shop.close": "Close unpaid orders", "shop.ship": "Hand over to the carrier",
			"shop.refund": "Ask whether a refund arrived", "crm.sync": "Copy customers to the CRM"}[name]
		i.endpoint.Set("/"+name, harness.Status(http.StatusOK))
		_, err := r.PutTopic(ctx, "user/anna", x)
		must(err)
	}
	must(r.RotateSecret(ctx, "user/anna", "shop.close", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
		now.Add(3*time.Hour+12*time.Minute)))
	x := *r.Snapshot().Topics.Get("crm.sync")
	x.State = registry.TopicPaused
	_, err = r.PutTopic(ctx, "user/wei", x)
	must(err)
	must(r.SetPauseReason(ctx, "user/wei", "crm.sync", "The CRM is being moved until Monday"))
}

// scenes are pages after a click.
var scenes = map[string]struct{ path, fill, click string }{
	"import":    {"/topics", "", `.page-header button[data-bs-toggle=dropdown]`},
	"confirm":   {"/dead", "", `#wk-dead-chosen .btn.text-red`},
	"mistakes":  {"/topics/-/new", "input[name=name]", `main form button[type=submit]`},
	"new-token": {"/access", "#t-name", `form[action$="/access/tokens"] .btn-primary`},
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

// worked creates a pull topic with jobs leased to workers, and a task.
func (i *installation) worked(t *testing.T, b *harness.Browser) {
	t.Helper()
	i.MustPutTopic(t, "film.render", M{"title": "Render films", "delivery": "pull", "ttr": "6h", "owner": "team-film"})
	for n := range 12 {
		i.MustPush(t, "film.render", M{"id": fmt.Sprint("film-", n), "body": M{"film": n}})
	}
	c := i.client(t)
	jobs, err := c.Reserve(ctx, client.Reserve{Topics: []string{"film.render"}, Max: 5, Wait: time.Minute})
	if err != nil || len(jobs) == 0 {
		t.Fatalf("reserved %d jobs, %v", len(jobs), err)
	}
	b.Open("/dead?topic=mail.welcome")
	b.Click(`#wk-dead-chosen .btn-primary`)
	b.Submit(`#wk-confirm [data-ok]`)
}

// busy pushes for a while at a varying rate, so that the charts show a busy installation.
func (i *installation) busy(t *testing.T, span time.Duration) {
	t.Helper()
	i.put(t, "mail.welcome", harness.Status(http.StatusInternalServerError), M{
		"title": "Welcome mails", "max_attempts": 1, "emails": []string{"mail-team@shop.example"},
	})
	began, n, dead := time.Now(), 0, time.Time{}
	harness.Stays(t, span, "the charts fill", func() error {
		wave := 1 + math.Sin(2*math.Pi*time.Since(began).Minutes()/17)
		if rand.Float64() > wave/6 { // some 30 jobs a second
			return nil
		}
		n++
		for _, topic := range []string{"shop.close", "shop.ship", "shop.ship", "shop.refund"} {
			i.Push(ctx, topic, M{
				"body": M{"order": n}, "priority": []string{"high", "normal", "normal", "low"}[n%4],
				"delay": fmt.Sprint(n%300, "s"),
			})
		}
		if n%10 == 0 {
			i.Push(ctx, "crm.sync", M{"body": M{"customer": n}, "delay": fmt.Sprint(n%50, "m")})
		}
		if time.Since(dead) > 5*time.Minute {
			dead = time.Now()
			i.Push(ctx, "mail.welcome", M{"body": M{"customer": n}})
		}
		return nil
	})
	for _, id := range []string{"done-1", "order-1"} { // after much traffic the topic has forgotten them
		i.Push(ctx, "shop.close", M{"id": id, "body": M{"order": 1}})
	}
	i.waitState(t, "shop.close", "done-1", "done")
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
