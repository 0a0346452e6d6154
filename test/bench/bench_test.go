package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return strings.TrimPrefix(srv.URL, "http://")
}

func TestJobsHaveTheSizesTheReportClaims(t *testing.T) {
	for _, n := range []int{0, 7, 123_456_789} {
		if b := jobBody(n); len(b) != bodySize || !json.Valid([]byte(b)) {
			t.Errorf("body %q of %d bytes", b, len(b))
		}
		if id := jobID(15, n); len(id) != idSize {
			t.Errorf("id %q of %d bytes", id, len(id))
		}
	}
}

func TestRequestsAreHTTPAndJSON(t *testing.T) {
	b := batch{topic: "bench", token: "tok", size: 3, delay: between(time.Hour, 2*time.Hour)}
	for name, raw := range map[string][]byte{"single": singlePushes("bench", "tok")(5)(), "batch": b.source(5)()} {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !json.Valid(body) {
			t.Errorf("%s: body %q, error %v", name, body, err)
		}
		if r.Header.Get("Authorization") != "Bearer tok" {
			t.Errorf("%s: headers %v", name, r.Header)
		}
	}
}

// TestAWorkerAcksItsJobs, and reserves again after that, or after an empty answer.
func TestAWorkerAcksItsJobs(t *testing.T) {
	const one, two = `{"jobs":[{"lease":"L1","topic":"t"}]}`,
		`{"jobs":[{"lease":"L1","topic":"t"},{"lease":"L2","topic":"t"}]}`
	const reserve = "/v1/topics/bench/reserve"
	for _, x := range []struct {
		size                 int
		answer, path, wanted string
	}{
		{1, "", reserve, `{"max":1}`}, {1, one, "/v1/leases/L1/ack", ""}, {1, `{"jobs":[]}`, reserve, `{"max":1}`},
		{100, two, "/v1/leases", `{"ack":["L1","L2"]}`},
		{100, `{"results":[{"lease":"L1","state":"done"}]}`, reserve, `{"max":100}`},
	} {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(worker("tok", x.size)([]byte(x.answer)))))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(r.Body); err != nil || r.URL.Path != x.path || string(body) != x.wanted {
			t.Errorf("after %s: %s %s, %v", x.answer, r.URL.Path, body, err)
		}
	}
}

func TestBatchIDsNeverRepeat(t *testing.T) {
	b := batch{topic: "bench", size: 2, delay: func() time.Duration { return 0 }}
	seen := map[string]bool{}
	for conn := range 2 {
		next := b.source(conn)
		for range 2 {
			_, body, _ := bytes.Cut(next(), []byte("\r\n\r\n"))
			var push struct{ Jobs []struct{ ID string } }
			if err := json.Unmarshal(body, &push); err != nil {
				t.Fatal(err)
			}
			for _, j := range push.Jobs {
				seen[j.ID] = true
			}
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d ids of 8 jobs", len(seen))
	}
}

func TestLoadCountsRequests(t *testing.T) {
	addr := serve(t, echoHandler())
	l := load{addr: addr, conns: 4, duration: 50 * time.Millisecond, source: singlePushes("bench", "")}
	r, err := l.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests == 0 || r.P50 <= 0 || r.Max < r.P99 || r.P99 < r.P50 {
		t.Errorf("result %+v", r)
	}
}

func TestLoadWithATotalSendsExactlyThat(t *testing.T) {
	addr := serve(t, echoHandler())
	r, err := load{addr: addr, conns: 3, total: 100, source: singlePushes("bench", "")}.run(context.Background())
	if err != nil || r.Requests != 100 {
		t.Errorf("result %+v, error %v", r, err)
	}
}

func TestLoadEndsAtARefusal(t *testing.T) {
	addr := serve(t, http.NotFoundHandler())
	_, err := load{
		addr:     addr,
		conns:    2,
		duration: time.Minute,
		source:   singlePushes("bench", ""),
	}.run(
		context.Background(),
	)
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v", err)
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	arrived := make(chan struct{}, 1)
	addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not watch the connection
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-arrived; cancel() }()
	_, err := load{addr: addr, conns: 1, duration: time.Minute, source: singlePushes("bench", "")}.run(ctx)
	if err == nil {
		t.Error("no error")
	}
}

func TestWireReadsWhatGoServersSend(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 10_000) // in chunks
	addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/big":
			_, _ = io.WriteString(w, big)
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		default:
			_, _ = io.WriteString(w, r.URL.Path)
		}
	}))
	var bodies []string
	paths := []string{"/big", "/none", "/small", "/big", "/small"}
	n := 0
	_, err := load{
		addr: addr, conns: 1, total: len(paths),
		source: func(int) func() []byte {
			return func() []byte { n++; return post(paths[n-1], "", "") }
		},
		check: func(_ int, body []byte) error { bodies = append(bodies, string(body)); return nil },
	}.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{big, "", "/small", big, "/small"}
	if fmt.Sprint(bodies) != fmt.Sprint(want) {
		t.Errorf("bodies of %d", len(bodies))
	}
}

func TestBatchWithARefusedJobIsRefused(t *testing.T) {
	if noErrors(200, []byte(`{"results":[{"topic":"error"}]}`)) != nil {
		t.Error("good batch")
	}
	if noErrors(200, []byte(`{"results":[{"id":"1"},{"error":{"status":404}}]}`)) == nil {
		t.Error("bad batch")
	}
}

func TestEndpoint(t *testing.T) {
	ctx := context.Background()
	h := &helper{addr: serve(t, newEndpoint())}
	send := func(path, due, id string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url(path), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Wakecall-Due-At", due)
		r.Header.Set("Wakecall-Id", id)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	send("/count", "", "")
	if err := h.reset(ctx); err != nil {
		t.Fatal(err)
	}
	send("/count", "", "")
	send("/late", "2026-01-02T03:04:05.678Z", "3-1767323045700")
	got, err := h.seen(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	if got.Count != 2 || len(got.Samples) != 1 || got.Samples[0].Due != 1767323045678 ||
		got.Samples[0].Wanted != 1767323045700 {
		t.Errorf("seen %+v", got)
	}
}

func TestSteadyRateLeavesOutBothEnds(t *testing.T) {
	buckets := map[int64]int64{}
	for i := range int64(10) { // ramps up: 10, 20 … 100 per tenth of a second, then 20 times 100, then a few
		buckets[1000+i] = 10 * (i + 1)
	}
	for i := range int64(20) {
		buckets[1010+i] = 100
	}
	buckets[1050] = 10
	steady, whole := steadyRate(buckets)
	if math.Round(steady) != 1000 {
		t.Errorf("steady %v", steady)
	}
	if math.Round(whole) != 502 {
		t.Errorf("whole %v", whole)
	}
}

func TestJudge(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	late := func(due, by int64) sample { return sample{Due: due, Wanted: due - 5, At: due*1000 + by} }
	raw := judge([]sample{
		late(999_999, 90_000),                               // before the measured time
		late(1_000_000, 1_000),                              // 1 ms
		late(1_000_500, 2_500),                              // 2.5 ms
		late(1_000_600, -1),                                 // early
		{Due: 1_000_700, Wanted: 1_000_702, At: 1000701000}, // early by the pusher's clock
	}, at, at.Add(time.Second), 200)
	if raw[0].Value != 1 && raw[0].Value != 2.5 {
		t.Errorf("p50 %v", raw[0].Value)
	}
	if raw[2].Value != 2.5 || raw[3].Value != 2 {
		t.Errorf("max %v, early %v", raw[2].Value, raw[3].Value)
	}
}

func TestParseRedisBenchmark(t *testing.T) {
	got := parseRedisBenchmark(
		"\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"113000.50\",\"0.3\"\n\"ZADD\",\"105000.00\",\"0.3\"\n",
	)
	if len(got) != 2 || got["set"] != 113000.5 || got["zadd"] != 105000 {
		t.Errorf("got %v", got)
	}
}

func TestParseStat(t *testing.T) {
	s, ok := parseStat("42 (wake) call: 1) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 100 5000 3")
	if !ok || s.parent != 7 || s.cpu != 2*time.Second {
		t.Errorf("got %+v, %v", s, ok)
	}
	if _, ok := parseStat("42 (x) S"); ok {
		t.Error("a short line was accepted")
	}
}

func TestInfoNumber(t *testing.T) {
	n, err := infoNumber("# Memory\r\nused_memory:12345\r\nused_memory_human:12K\r\n", "used_memory")
	if err != nil || n != 12345 {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := infoNumber("", "used_memory"); err == nil {
		t.Error("no error")
	}
}

func TestCommandsBetweenTwoInfos(t *testing.T) {
	before := "# Stats\r\ntotal_commands_processed:100\r\ncmdstat_get:calls=3,usec=1\r\ncmdstat_set:calls=7,usec=1\r\n"
	after := "# Stats\r\ntotal_commands_processed:141\r\n" +
		"cmdstat_get:calls=8,usec=1\r\ncmdstat_set:calls=7,usec=1\r\ncmdstat_ping:calls=2,usec=1\r\n"
	if n, err := commandsBetween(before, after); err != nil || n != 40 {
		t.Errorf("%d commands, %v", n, err)
	}
	if got := fmt.Sprint(callsBetween(before, after)); got != "map[get:5 ping:2]" {
		t.Errorf("calls %s", got)
	}
}

func TestChooseNamesTheRows(t *testing.T) {
	got, err := choose([]string{"idle", "push"})
	if err != nil || len(got) != 2 || got[0].name != "push" {
		t.Errorf("chose %v, %v", got, err)
	}
	if _, err := choose([]string{"speed"}); err == nil || !strings.Contains(err.Error(), "lateness") {
		t.Errorf("error %v", err)
	}
}

func testReport() *Report {
	r := &Report{
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Version: "1.2.3", Seconds: 222.4, Runs: 3,
		Machine: Machine{CPU: "Some CPU", Cores: 2, Memory: 8 << 30, Kernel: "6.1.0", Go: "go1.26", Redis: "7.0.15"},
	}
	add := func(g group, raw ...[]Raw) {
		for i, f := range g.figures {
			r.Rows = append(r.Rows, f.row(g.name, raw[i]))
		}
	}
	add(startGroup, []Raw{{Value: 350.4}})
	add(
		pushGroup,
		[]Raw{{Value: 20_000, Limit: 50_000}, {Value: 40_000, Limit: 50_000}, {Value: 34_000, Limit: 50_000}},
	)
	add(batchGroup, []Raw{{Value: 119_999}}, []Raw{{Value: 0.4}}) // without redis-benchmark
	add(lateGroup, []Raw{{Value: 1.234}}, []Raw{{Value: 5.5}}, []Raw{{Value: 30}}, []Raw{{Value: 0}})
	add(memoryGroup, []Raw{{Value: 127}}, []Raw{{Value: 88}})
	return r
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := testReport().Table(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", b.String())
}

func TestMissed(t *testing.T) {
	if got := testReport().Missed(); len(got) != 2 {
		t.Errorf("missed %q", got)
	}
}

func TestJSONHasTheRawFigures(t *testing.T) {
	var b bytes.Buffer
	if err := testReport().JSON(&b); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Rows[1].Raw[2].Value != 34_000 || back.Machine.Cores != 2 {
		t.Errorf("read back %+v", back)
	}
}

// golden compares with testdata; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestHelperEndsWithItsParent(t *testing.T) {
	stop, hold := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- RunHelper(context.Background(), HelperEcho, stop, out) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "127.0.0.1:") {
		t.Fatalf("address %q, %v", line, err)
	}
	hold.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := RunHelper(context.Background(), "x", stop, out); err == nil {
		t.Error("an unknown helper ran")
	}
}

func TestTheMemoryOfThisProcessIsRead(t *testing.T) {
	rss, pss, err := residentOf(os.Getpid())
	if err != nil || rss < 1 || pss < 1 || pss > rss {
		t.Errorf("rss %f MiB, pss %f MiB, %v", rss, pss, err)
	}
	title, err := processTitle(os.Getpid())
	if err != nil || title != "bench.test" {
		t.Errorf("its name is %q, %v", title, err)
	}
}
