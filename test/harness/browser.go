package harness

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/wakecall/wakecall/test/harness/process"
)

// Browser is a headless Chromium with one page. Script errors, console errors and failed requests fail the test.
type Browser struct {
	t    testing.TB
	base string
	ctx  context.Context

	mu       sync.Mutex
	troubles []string
	expected []string // parts of errors that the test expects
}

// StartBrowser opens a browser for a site. It ends with the test.
func StartBrowser(t testing.TB, base string) *Browser {
	t.Helper()
	binary := process.Need(t, "chromium", "chromium")
	opts := append(
		chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(binary),
		chromedp.NoSandbox,
		chromedp.UserDataDir(process.Dir(t, "browser")),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", "en"),
	)
	alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	b := &Browser{t: t, base: strings.TrimRight(base, "/")}
	ctx, end := chromedp.NewContext(alloc, chromedp.WithListener(b.listen))
	b.ctx = ctx
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		end()
		endAlloc()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, trouble := range b.troubles {
			t.Errorf("in the browser: %s", trouble)
		}
	})
	if err := chromedp.Do(ctx); err != nil { // it starts the browser, so its context must not end
		t.Fatalf("the browser: %v", err)
	}
	b.Size(1440, 900)
	return b
}

func (b *Browser) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.trouble("a script failed: %s", &chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails})
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			b.trouble("the console has an error: %v", e.Args)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError {
			b.trouble("the log has an error: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			b.trouble("%s answered %d", e.Response.URL, e.Response.Status)
		}
	}
}

func (b *Browser) trouble(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, part := range b.expected {
		if strings.Contains(text, part) {
			return
		}
	}
	b.troubles = append(b.troubles, text)
}

// Expect ignores errors that contain a text.
func (b *Browser) Expect(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, part)
}

// Do runs actions, for as long as Patience allows.
func (b *Browser) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	run(b, chromedp.Steps(actions...))
}

// Evaluate runs a script in the page and returns its value.
func Evaluate[T any](b *Browser, script string, opts ...chromedp.EvaluateOption) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](script, opts...))
}

func run[T any](b *Browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err == nil {
		return value
	}
	look, stop := context.WithTimeout(b.ctx, 5*time.Second)
	defer stop()
	where, _ := chromedp.Run(look, chromedp.Location())
	text, _ := chromedp.Run(look, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
	b.t.Fatalf("the browser at %s: %v\n%.1500s", where, err, text)
	return value
}

// send sends a command of the protocol and returns its result.
func send[P, R any](b *Browser, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	return run(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, command, params) })
}

// Size sets the size of the window.
func (b *Browser) Size(width, height int64) {
	b.t.Helper()
	b.Do(chromedp.EmulateViewport(width, height))
}

// Open opens a page of the site and waits until it is loaded.
func (b *Browser) Open(path string) {
	b.t.Helper()
	b.Do(chromedp.Navigate(b.base+path), chromedp.WaitReady(chromedp.CSS("main, body")))
}

// Dark sets whether the system prefers dark pages.
func (b *Browser) Dark(dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
}

// Fill puts a text into a field.
func (b *Browser) Fill(selector, text string) {
	b.t.Helper()
	b.Do(chromedp.SetValue(chromedp.CSS(selector), text))
}

// Type sends the keys of a text to a field, or to the page.
func (b *Browser) Type(selector, text string, keys ...chromedp.KeyOption) {
	b.t.Helper()
	if selector == "" {
		b.Do(chromedp.KeyEvent(text, keys...))
		return
	}
	b.Do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Click clicks an element as soon as it is visible.
func (b *Browser) Click(selector string) {
	b.t.Helper()
	b.Do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// Submit clicks an element that leads to another page, and waits until that is loaded: a navigation that begins
// meanwhile would abort it.
func (b *Browser) Submit(selector string) {
	b.t.Helper()
	Evaluate[chromedp.Void](b, `window.wakecallBefore = true`)
	b.Click(selector)
	Eventually(b.t, Patience, "the next page after "+selector, func() error {
		there, err := chromedp.Run(
			b.ctx,
			chromedp.Evaluate[bool](`!window.wakecallBefore && document.readyState === "complete"`),
		)
		if err != nil {
			return err
		}
		return Equal("the page is there", there, true)
	})
}

// Text returns the text that the page shows.
func (b *Browser) Text() string {
	b.t.Helper()
	return Evaluate[string](b, `document.body.innerText`)
}

// Shows waits until the page shows all texts.
func (b *Browser) Shows(limit time.Duration, texts ...string) {
	b.t.Helper()
	Eventually(b.t, limit, fmt.Sprintf("the page to show %q", texts), func() error {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
		if err != nil {
			return err
		}
		for _, want := range texts {
			if !strings.Contains(text, want) {
				return fmt.Errorf("it shows %.1200s", text)
			}
		}
		return nil
	})
}

// Overflow returns by how many pixels the page is wider than the window.
func (b *Browser) Overflow() int {
	b.t.Helper()
	return Evaluate[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
}

// Finding is a violation that axe found.
type Finding struct {
	ID     string   `json:"id"`
	Impact string   `json:"impact"`
	Help   string   `json:"help"`
	Nodes  []string `json:"nodes"`
}

// Axe checks the page for accessibility, by all rules or those named, and returns the serious violations. script is the
// source of axe-core.
func (b *Browser) Axe(script string, rules ...string) []Finding {
	b.t.Helper()
	send(b, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
	Evaluate[chromedp.Void](b, script+"; true")
	only := ""
	if len(rules) > 0 {
		only = fmt.Sprintf(", runOnly: %q", rules)
	}
	return Evaluate[[]Finding](
		b,
		`axe.run({resultTypes: ["violations"]`+only+`}).then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical")
			.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map(n => n.html.slice(0, 200))})))`,
		chromedp.EvalAwaitPromise,
	)
}

// Screenshot stores the whole page as a PNG, or its visible part as a WebP, by the name of the file.
func (b *Browser) Screenshot(file string) {
	b.t.Helper()
	var picture []byte
	if strings.HasSuffix(file, ".webp") {
		params := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: new(int64(85))}
		picture = send(b, page.CaptureScreenshot, params).Data
	} else {
		picture = run(b, chromedp.FullScreenshot(100))
	}
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Speak sets the language that the user prefers.
func (b *Browser) Speak(language string) {
	b.t.Helper()
	headers := network.Headers{"Accept-Language": language}
	send(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: headers})
}
