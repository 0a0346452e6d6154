package admin

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/wait"
)

// TestChineseIsChineseThroughout: messages of other packages are translated by their codes, with their arguments.
func TestChineseIsChineseThroughout(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("root").post("/language", "choice", "zh-Hans")
	if _, body := s.post("/topics/-/new", "name", "b", "callback_url", "ftp://h", "ttr", "2h"); !strings.Contains(body,
		"应以 http:// 或 https:// 开头") || !strings.Contains(body, "必须在 100 毫秒 到 1 小时 之间，而不是 2 小时") {
		t.Errorf("a wrong form says\n%s", body)
	}
	if _, body := s.get("/topics/nowhere"); !strings.Contains(body, "没有这个主题") {
		t.Errorf("a topic that does not exist:\n%s", body)
	}
}

// TestMistakesInExpressionsAndFilesAreChinese: their position, and what Wakecall itself refuses. A library's own words
// stay English.
func TestMistakesInExpressionsAndFilesAreChinese(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("root").post("/language", "choice", "zh-Hans")
	text := func(body string) string {
		return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, ""))
	}
	for _, c := range []struct{ dialect, expression, want string }{
		{"", "res.code !=", "第 1 行第 11 列：unexpected token"}, {"", "res.a()", "第 1 行第 5 列：重试条件（retry_if）中不能使用"},
		{"", "body matches body", "不能使用 matches 加非文本的正则表达式"},
		{"phpdq", "{res.code", "{ 没有对应的 }"}, {"phpdq", "{res.code} ==", "第 14 列：末尾缺少值"},
		{"phpdq", "abc == 1", `不能使用 "abc"`}, {"phpdq", "{res.code} == 'a", "缺少结尾的 '"},
	} {
		_, body := s.post("/topics/check/retry_if", "retry_if", c.expression, "dialect", c.dialect, "sample_status", "200")
		if said := text(body); !strings.Contains(said, c.want) {
			t.Errorf("the error of %q is %q, which lacks %q", c.expression, said, c.want)
		}
	}
	for file, want := range map[string]string{
		"hello": "既不是主题，也不是主题列表", "- 1": `"1" 不是主题`, "": "其中没有主题", "a: [": "文档 1：[1:4]",
		"- {name: a, ttl: 1}\n- {x: 1}":                 "文档 1，主题 第 2 个：没有名称",
		"{name: a, callback_url: 'ftp://h', ttr: soon}": "文档 1，主题 a：ttr: 应为 \"90s\"、\"30m\" 这样的时长，或秒数，而不是 \"soon\"; ",
	} {
		_, said, _ := strings.Cut(s.upload(file), `id="wk-flash"`)
		said, _, _ = strings.Cut(said, `class="page-header"`)
		if said = text("<p " + said); !strings.Contains(said, want) {
			t.Errorf("the error of %q is %q, which lacks %q", file, said, want)
		}
	}
}

// TestTimesOfFormsAreInTheChosenZone: input is interpreted in that zone, and shown again as it was typed.
func TestTimesOfFormsAreInTheChosenZone(t *testing.T) {
	t.Parallel()
	died := time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC) // 10:00 in Shanghai
	q := newDeadQueue("a", 1)
	q.jobs["a"][0].DeadAt = died
	s := deadSite(t, q)
	s.admin.jobs.SetPatience(time.Minute)
	path := "/dead?since=2026-11-22T09:30&until=2026-11-22T10:30"
	s.shows(path, "0 jobs")
	s.post("/zone", "choice", "Asia/Shanghai")
	s.shows(path, "1 job of one topic", `value="2026-11-22T09:30"`, `data-zone="Asia/Shanghai"`)
	s.post("/zone", "choice", "browser")
	at, err := url.Parse(s.url)
	must(t, err)
	s.client.Jar.SetCookies(at, []*http.Cookie{{Name: "wakecall_browser_zone", Value: "Asia/Shanghai", Path: "/"}})
	s.shows(path, "1 job of one topic", `data-zone="browser"`)
	if status, _ := s.post("/zone", "choice", "Mars/Olympus"); status != http.StatusBadRequest {
		t.Errorf("a zone that does not exist got %d", status)
	}
}

// TestTheSearchFindsTopicsIDsAndPages, and only pages that its user may see.
func TestTheSearchFindsTopicsIDsAndPages(t *testing.T) {
	t.Parallel()
	s, q := shop(t)
	s.topic("order.pay")
	for _, p := range []queue.Push{{ID: "order-17"}, {ID: "order-18"}, {ID: "other"}} {
		p.Topic, p.Body, p.Delay = "shop.close", []byte(`1`), time.Hour
		must(t, q.Push(t.Context(), p).Err)
	}
	s.as("look")
	found := func(text string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/search?id="+text, nil)
		must(t, err)
		r.Header.Set("HX-Request", "true")
		_, body := s.send(r)
		return body
	}
	wait.For(t, "topics and jobs with the prefix to be found", func() bool { // a busy machine may be late
		body := found("order")
		if strings.Contains(body, "other") {
			t.Fatalf("a prefix finds\n%s", body)
		}
		return strings.Contains(body, `href="/topics/order.pay"`) && strings.Contains(body, "order-18") &&
			strings.Contains(body, `href="/topics/shop.close/jobs/order-17"`)
	})
	if body := found("acc"); !strings.Contains(body, `href="/account"`) || strings.Contains(body, `href="/access"`) {
		t.Errorf("a viewer finds\n%s", body)
	}
	if body := s.as("root").shows("/search?id=acc"); !strings.Contains(body, `href="/access"`) {
		t.Error("an admin does not find a page")
	}
}

// slowFinder takes longer for each call than a page may take, on fake time.
type slowFinder struct {
	*queue.Queue
	took atomic.Int64
}

func (q *slowFinder) FindAny(ctx context.Context, id string, topics []string) ([]*queue.Job, error) {
	q.took.Add(int64(150 * time.Millisecond))
	return q.Queue.FindAny(ctx, id, topics)
}

// TestASearchOfManyTopicsShowsAPageAtOnce, and continues from there.
func TestASearchOfManyTopicsShowsAPageAtOnce(t *testing.T) {
	t.Parallel()
	q := &slowFinder{Queue: realQueue(t)}
	began := time.Now()
	s := open(t, func(o *Options) {
		o.Queue, o.Now = q, func() time.Time { return began.Add(time.Duration(q.took.Load())) }
	})
	topics := make([]registry.Topic, 1001)
	for i := range topics {
		topics[i] = registry.NewTopic(fmt.Sprintf("many.%04d", i))
		topics[i].CallbackURL = "http://127.0.0.1:1/"
	}
	if _, err := s.registry.PutTopics(t.Context(), "test", topics); err != nil {
		t.Fatal(err)
	}
	must(t, q.Push(t.Context(), queue.Push{Topic: "many.1000", ID: "order-17", Delay: time.Hour}).Err)
	page := s.as("look").shows("/search?id=order-17", "/search?on=1&amp;id=order-17")
	if took := time.Duration(q.took.Load()); took > 200*time.Millisecond || strings.Contains(page, "many.1000") {
		t.Errorf("the page took %v", took)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/search?on=1&id=order-17", nil)
	must(t, err)
	r.Header.Set("HX-Request", "true")
	if _, body := s.send(r); !strings.Contains(body, `href="/topics/many.1000/jobs/order-17"`) {
		t.Errorf("the search continues and finds\n%s", body)
	}
}

// TestTheMenuCountsWhatIsWrong: no shard is a problem, which the menu and the title of the tab count.
func TestTheMenuCountsWhatIsWrong(t *testing.T) {
	t.Parallel()
	q := newDeadQueue("a", 7)
	s := deadSite(t, q)
	strip := s.admin.overview.Strip(t.Context())
	if strip.Wrong["dead"] != 7 || strip.Wrong["overview"] != 1 {
		t.Errorf("the problems are counted as %v", strip.Wrong)
	}
	s.admin.page.SetStrip(strip)
	s.shows("/", `data-count-of="dead"`, `&#34;dead&#34;: 7`)
}

func TestTopicsAreSortedByHealthBothWays(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	for _, name := range []string{"a", "b", "c"} {
		s.topic(name)
	}
	s.queue.stats = map[string]queue.Stats{"a": {}, "b": {Ready: 3, OldestReady: time.Hour}, "c": {Ready: 9}}
	s.post("/topics/c/pause")
	for query, want := range map[string]string{"health": "bca", "-health": "acb", "ready": "cba", "-ready": "abc",
		"oldest": "bac", "name": "abc", "-name": "cba"} {
		body, order := s.shows("/topics?sort="+query), ""
		for _, part := range strings.Split(body, `class="fw-bold" href="/topics/`)[1:] {
			order += part[:1]
		}
		if order != want {
			t.Errorf("by %s: %s, want %s", query, order, want)
		}
	}
	s.shows("/topics", "late", "paused", "healthy", `data-live="topics:`)
}
