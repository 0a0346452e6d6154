package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childDir) != "" {
		writeUntilKilled(os.Getenv(childDir))
		return
	}
	goleak.VerifyTestMain(m)
}

// clock is a time that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

var noon = time.Date(2025, 3, 9, 12, 0, 0, 0, time.UTC)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t testing.TB, dir string, c *clock) *Journal {
	t.Helper()
	j, err := Open(Options{Dir: dir, Keep: 48 * time.Hour, Process: "test", Logger: quiet(), Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func push(t testing.TB, j *Journal, ids ...string) {
	t.Helper()
	if err := j.Requests(requests(ids...)); err != nil {
		t.Fatal(err)
	}
}

func requests(ids ...string) (lines []RequestLine) {
	for _, id := range ids {
		lines = append(lines, RequestLine{Op: OpPush, Topic: "t", ID: id, Body: []byte(`{"n":1}`)})
	}
	return lines
}

// ids reads the ids of all requests, and how many lines were torn.
func ids(t testing.TB, dir string, r Range) (found []string, torn int) {
	t.Helper()
	for l, err := range ReadRequests(dir, r) {
		if _, ok := errors.AsType[*TornError](err); ok {
			torn++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, l.ID)
	}
	return found, torn
}

func wantIDs(t testing.TB, dir string, want ...string) {
	t.Helper()
	if got, _ := ids(t, dir, Range{}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func names(t testing.TB, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != lockName && e.Name() != formatName {
			list = append(list, e.Name())
		}
	}
	return list
}

func wantNames(t testing.TB, dir string, want ...string) {
	t.Helper()
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("the directory holds %q, want %q", got, want)
	}
}

func TestStreams(t *testing.T) {
	dir, c := filepath.Join(t.TempDir(), "a", "journal"), &clock{t: noon}
	j := open(t, dir, c)
	attempt := AttemptLine{Topic: "t", ID: "1", N: 2, StartedAt: noon, Took: 1500 * time.Microsecond, Status: 503,
		Outcome: Retry, Reason: "status"}
	if err := errors.Join(j.Attempts([]AttemptLine{attempt}), j.Error(ErrorLine{Where: "queue", Error: "boom",
		Context: "shard=r1"}), j.Requests(nil)); err != nil {
		t.Fatal(err)
	}
	push(t, j, "1")
	wantNames(t, dir, "error-20250309.jsonl", "notify-20250309.jsonl", "request-20250309.jsonl")
	got, err := os.ReadFile(filepath.Join(dir, "notify-20250309.jsonl"))
	want := `{"ts":"2025-03-09T12:00:00.000Z","topic":"t","id":"1","n":2,"started_at":1741521600000,"took_ms":1.5,` +
		`"status":503,"outcome":"retry","reason":"status","process":"test","crc":"0ff4bc30"}` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for l, err := range ReadAttempts(dir, Range{}) {
		attempt.TS, attempt.Process = noon, "test"
		if err != nil || l != attempt {
			t.Errorf("got %+v %v", l, err)
		}
	}
	got, err = os.ReadFile(filepath.Join(dir, "error-20250309.jsonl"))
	want = `{"ts":"2025-03-09T12:00:00.000Z","process":"test","where":"queue","error":"boom","context":"shard=r1",` +
		`"crc":"012e0a23"}` +
		"\n"
	if err != nil || string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "request-20250309.jsonl"): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

func TestDaySwitch(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	j := open(t, dir, c)
	push(t, j, "1")
	c.add(12*time.Hour - time.Millisecond)
	push(t, j, "2")
	c.add(time.Millisecond)
	push(t, j, "3")
	c.add(-time.Millisecond) // the clock is set back
	push(t, j, "4")
	wantNames(t, dir, "request-20250309.jsonl", "request-20250310.jsonl")
	wantIDs(t, dir, "1", "2", "4", "3")
	if got, _ := ids(t, dir, Range{Since: noon.Add(12 * time.Hour)}); !slices.Equal(got, []string{"3"}) {
		t.Errorf("since midnight: %q", got)
	}
}

func TestDeletedFileIsMadeAgain(t *testing.T) {
	dir, c := filepath.Join(t.TempDir(), "j"), &clock{t: noon}
	j := open(t, dir, c)
	push(t, j, "1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	c.add(checkEvery)
	push(t, j, "2")
	wantIDs(t, dir, "2")
}

func TestTornLines(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	name := filepath.Join(dir, "request-20250309.jsonl")
	open(t, dir, c)
	good := string(requests("x")[0].appendForTest())
	for text, want := range map[string]struct {
		ids  []string
		torn int
	}{
		good[:20]:                           {[]string{"1"}, 1},
		good + good[:len(good)-2]:           {[]string{"x", "1"}, 1},
		good[:20] + good:                    {[]string{"x", "1"}, 1},
		good[:20] + good[:30] + good:        {[]string{"x", "1"}, 1},
		"\n\n" + good:                       {[]string{"x", "1"}, 0},
		"[]\n3\n{}\nnull\n{\"ts\":\"x\"}\n": {[]string{"1"}, 5},
		"\x00\x00\x00" + good:               {[]string{"x", "1"}, 1},
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, dir, c)
		push(t, j, "1")
		if got, torn := ids(t, dir, Range{}); !slices.Equal(got, want.ids) || torn != want.torn {
			t.Errorf("%q: got %q and %d torn, want %v", text, got, torn, want)
		}
	}
}

func (l RequestLine) appendForTest() []byte { return written(l.append(nil, noon)) }

func TestClosed(t *testing.T) {
	j := open(t, t.TempDir(), &clock{t: noon})
	push(t, j, "1")
	if err := errors.Join(j.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}
	if err := j.Requests(requests("2")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestConcurrentWriters(t *testing.T) {
	dir, c := t.TempDir(), &clock{t: noon}
	var writers sync.WaitGroup
	const processes, calls, batch = 4, 50, 5
	for p := range processes {
		j := open(t, dir, c) // with its own descriptor, as another process has
		for g := range 2 {
			writers.Go(func() {
				for n := range calls {
					var names []string
					for i := range batch {
						names = append(names, fmt.Sprintf("%d-%d-%d-%d-%s", p, g, n, i, strings.Repeat("x", n*20)))
					}
					if err := j.Requests(requests(names...)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	writers.Wait()
	got, torn := ids(t, dir, Range{})
	slices.Sort(got)
	if len(slices.Compact(got)) != processes*2*calls*batch || torn != 0 {
		t.Errorf("%d ids, %d torn", len(got), torn)
	}
}

func BenchmarkRequests64(b *testing.B) {
	for _, size := range []int{64, 4096} {
		b.Run(fmt.Sprintf("body=%d", size), func(b *testing.B) {
			j := open(b, b.TempDir(), &clock{t: noon})
			body := []byte(`{"order":42,"note":"` + strings.Repeat("x", size-23) + `"}`)
			lines := make([]RequestLine, 64)
			for i := range lines {
				lines[i] = RequestLine{Op: OpPush, Topic: "shop.close", ID: fmt.Sprintf("order-%018d", i), Shard: "r1",
					DueAt:     noon,
					CreatedAt: noon, Priority: "normal", TTR: 10 * time.Second, MaxAttempts: 10, Body: body}
			}
			b.ReportAllocs()
			b.SetBytes(int64(64 * size))
			n := 0
			for b.Loop() {
				if err := j.Requests(lines); err != nil {
					b.Fatal(err)
				}
				if n++; n%1000 == 0 { // keep the file small
					_ = os.Truncate(filepath.Join(j.opts.Dir, "request-20250309.jsonl"), 0)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/line")
		})
	}
}
