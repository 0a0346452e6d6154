package topics_test

import (
	"bytes"
	"html"
	"io"
	"mime/multipart"
	"regexp"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin/admintest"
)

// upload imports a file of topics and returns the page that follows.
func upload(s *admintest.Site, file string) string {
	s.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", "topics.yaml")
	admintest.Must(s, err)
	_, _ = io.WriteString(part, file)
	_ = w.Close()
	res, err := s.Client.Post(s.URL+"/topics/import", w.FormDataContentType(), &b)
	admintest.Must(s, err)
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

// TestTopicsGoOutAndInAsYAML: an export can be imported, and a file with an error changes nothing.
func TestTopicsGoOutAndInAsYAML(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("root")
	_, exported := s.Get("/topics/-/export")
	if !strings.Contains(exported, "name: shop.close") || strings.Contains(exported, "created_at") ||
		!strings.Contains(exported, "max_attempts: 10\n") {
		t.Fatalf("exported\n%s", exported)
	}
	if body := upload(s, strings.ReplaceAll(exported, "shop.close", "shop.copy")); !strings.Contains(body,
		"1 topic was imported") || s.Registry.Snapshot().Topics.Get("shop.copy") == nil {
		t.Errorf("imported: %s", body)
	}
	for _, bad := range []string{"name: a\n---\nname: b\ncallback_url: http://h\nnonsense: 1\n",
		"- callback_url: http://h\n", "{", "just text"} {
		before := s.Registry.Snapshot().Topics.Len()
		if body := upload(s, bad); !strings.Contains(body, "document") || s.Registry.Snapshot().Topics.Len() != before {
			t.Errorf("%q was accepted: %s", bad, body)
		}
	}
}

// TestSchedulesGoOutAndInAsYAML: after the topics of the file, and only if all of them have a topic.
func TestSchedulesGoOutAndInAsYAML(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("root")
	const file = "schedule: report\ntopic: reports\ncron: '0 8 * * 1-5'\nbody: {n: '<1>'}\n---\n" +
		"schedule: other\ntopic: shop.close\nevery: 1h\nbody: null\n"
	if body := upload(s, file); !strings.Contains(body, "report uses the topic reports") ||
		s.Registry.Snapshot().Schedules.Len() > 0 {
		t.Errorf("without its topic: %s", body)
	}
	twice := strings.ReplaceAll(file, "topic: reports", "topic: shop.close")
	if body := upload(s, twice+"---\n"+twice); !strings.Contains(body, "schedule report twice") {
		t.Errorf("twice: %s", body)
	}
	body := upload(s, "name: reports\ncallback_url: https://h/r\n---\n"+file)
	if !strings.Contains(body, "1 topic was imported") || !strings.Contains(body, "2 schedules were imported") ||
		s.Registry.Snapshot().Schedules.Len() != 2 {
		t.Errorf("imported: %s", body)
	}
	if _, exported := s.Get("/topics/-/export?topic=reports"); !strings.Contains(exported, "schedule: report\n") ||
		strings.Contains(exported, "other") {
		t.Errorf("of one topic\n%s", exported)
	}
	_, exported := s.Get("/topics/-/export")
	if body := upload(s, exported); !strings.Contains(body, "2 schedules were imported") ||
		!strings.Contains(exported, "schedule: other\ntopic: shop.close\nevery: 1h0m0s\n") {
		t.Errorf("exported\n%s\nand imported: %s", exported, body)
	}
}

// TestAFileOfTopicsIsTakenAsAWhole: a file that is too large is not treated as empty, and one with a duplicate topic
// changes nothing.
func TestAFileOfTopicsIsTakenAsAWhole(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	if body := upload(s, "# "+strings.Repeat("x", 5<<20)); !strings.Contains(body, "too large; the limit is 4.0 MiB") {
		t.Errorf("a large file: %s", body)
	}
	twice := "name: a\ncallback_url: http://h\n---\nname: b\ncallback_url: http://h\n" +
		"---\nname: a\ncallback_url: http://i\n"
	if body := upload(s, twice); !strings.Contains(body, "the topic a twice") ||
		s.Registry.Snapshot().Topics.Len() > 0 {
		t.Errorf("a file with a topic twice: %s", body)
	}
}

// TestMistakesInExpressionsAndFilesAreChinese: their position, and what Wakecall itself refuses. A library's own words
// stay English.
func TestMistakesInExpressionsAndFilesAreChinese(t *testing.T) {
	t.Parallel()
	s, _ := admintest.Shop(t)
	s.As("root").Post("/language", "choice", "zh-Hans")
	text := func(body string) string {
		return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, ""))
	}
	for _, c := range []struct{ dialect, expression, want string }{
		{"", "res.code !=", "第 1 行第 11 列：unexpected token"}, {"", "res.a()", "第 1 行第 5 列：重试条件（retry_if）中不能使用"},
		{"", "body matches body", "不能使用 matches 加非文本的正则表达式"},
		{"phpdq", "{res.code", "{ 没有对应的 }"}, {"phpdq", "{res.code} ==", "第 14 列：末尾缺少值"},
		{"phpdq", "abc == 1", `不能使用 "abc"`}, {"phpdq", "{res.code} == 'a", "缺少结尾的 '"},
	} {
		_, body := s.Post("/topics/check/retry_if", "retry_if", c.expression, "dialect", c.dialect, "sample_status",
			"200")
		if said := text(body); !strings.Contains(said, c.want) {
			t.Errorf("the error of %q is %q, which lacks %q", c.expression, said, c.want)
		}
	}
	for file, want := range map[string]string{
		"hello": "既不是主题或定时计划，也不是它们的列表", "- 1": `"1" 不是主题`, "": "其中没有主题", "a: [": "文档 1：[1:4]",
		"- {name: a, ttl: 1}\n- {x: 1}":                 "文档 1，主题 第 2 个：没有名称",
		"{name: a, callback_url: 'ftp://h', ttr: soon}": "文档 1，主题 a：ttr: 应为 \"90s\"、\"30m\" 这样的时长，或秒数，而不是 \"soon\"; ",
	} {
		_, said, _ := strings.Cut(upload(s, file), `id="wk-flash"`)
		said, _, _ = strings.Cut(said, `class="page-header"`)
		if said = text("<p " + said); !strings.Contains(said, want) {
			t.Errorf("the error of %q is %q, which lacks %q", file, said, want)
		}
	}
}
