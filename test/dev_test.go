package test

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/client/wakecalltest"
	"github.com/wakecall/wakecall/test/harness"
)

// dev starts an installation with a clock that the test moves.
func dev(t *testing.T) *wakecalltest.Installation {
	t.Helper()
	t.Setenv("WAKECALL_BINARY", harness.Binary(t))
	return wakecalltest.Start(t)
}

// endpoint answers callbacks, and records them as "ID ATTEMPT".
func endpoint(
	t *testing.T, answer func(w http.ResponseWriter, id string, attempt int),
) (url string, calls func() []string) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Wakecall-Id")
		attempt, _ := strconv.Atoi(r.Header.Get("Wakecall-Attempt"))
		mu.Lock()
		list = append(list, fmt.Sprint(id, " ", attempt))
		mu.Unlock()
		answer(w, id, attempt)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

// simulated is a job of a simulation, which says what the installation should call.
type simulated struct {
	id       string
	kind     int
	due      time.Duration // after the start
	priority int
	revision int
	attempts int
	snoozed  bool
}

type simulation []*simulated

func (s simulation) Len() int      { return len(s) }
func (s simulation) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

func (s simulation) Less(i, j int) bool {
	a, b := s[i], s[j]
	if a.due != b.due {
		return a.due < b.due
	}
	if a.priority != b.priority {
		return a.priority < b.priority
	}
	return a.revision < b.revision
}

func (s *simulation) Push(x any) { *s = append(*s, x.(*simulated)) }

func (s *simulation) Pop() any {
	last := len(*s) - 1
	j := (*s)[last]
	*s = (*s)[:last]
	return j
}

// run returns the calls until end: "ID ATTEMPT OUTCOME, ms after the start".
func (s simulation) run(end time.Duration) (calls []string) {
	heap.Init(&s)
	for revision := len(s); len(s) > 0 && s[0].due <= end; revision++ {
		j := heap.Pop(&s).(*simulated)
		outcome, at := "done", j.due
		switch {
		case j.kind == 0 && j.attempts < 2:
			outcome = "retry"
			j.due += time.Duration(2*j.attempts+1) * time.Minute
		case j.kind == 1 && !j.snoozed:
			outcome, j.snoozed = "snooze", true
			j.due += 90 * time.Second
		case j.kind == 2:
			outcome = "dead"
		}
		calls = append(calls, fmt.Sprintf("%s %d %s %d", j.id, j.attempts+1, outcome, at.Milliseconds()))
		if outcome == "retry" {
			j.attempts++
		}
		if j.due > at {
			j.revision = revision
			heap.Push(&s, j)
		}
	}
	return calls
}

// A month of 10,000 jobs passes in seconds, and the calls are those of a simulation.
func TestDevMonth(t *testing.T) {
	const jobs, month = 10_000, 30 * 24 * time.Hour
	w := dev(t)
	kindOf := map[string]int{}
	snoozed := map[string]bool{}
	url, _ := endpoint(t, func(rw http.ResponseWriter, id string, attempt int) {
		switch kind := kindOf[id]; {
		case kind == 0 && attempt <= 2:
			rw.WriteHeader(http.StatusInternalServerError)
		case kind == 1 && !snoozed[id]:
			snoozed[id] = true
			rw.Header().Set("Retry-After", "90")
			rw.WriteHeader(http.StatusAccepted)
		case kind == 2:
			rw.WriteHeader(http.StatusGone)
		}
	})
	topics := []string{"order.close", "order.remind", "mail"}
	for _, name := range topics {
		w.Topic(name, url)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var sim simulation
	var batch []client.Push
	priorities := []string{client.High, client.Normal, client.Low}
	for i := range jobs {
		j := &simulated{
			id: fmt.Sprint("job-", random.Uint32(), "-", i), kind: random.IntN(25), revision: i,
			due: time.Duration(random.IntN(30*24*60)) * time.Minute, priority: random.IntN(3),
		}
		sim, kindOf[j.id] = append(sim, j), j.kind
		batch = append(batch, client.Push{
			Topic: topics[i/1000%len(topics)], ID: j.id, Body: json.RawMessage("1"), Delay: client.After(j.due),
			Priority: priorities[j.priority],
		})
	}
	for some := range slices.Chunk(batch, 1000) {
		results, err := w.Client.PushBatch(t.Context(), some)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	start, began := w.Now(), time.Now()
	calls := w.Advance(month)
	took := time.Since(began)
	t.Logf("%d calls of a month in %s", len(calls), took)
	var got []string
	for _, c := range calls {
		got = append(got, fmt.Sprintf("%s %d %s %d", c.ID, c.Attempt, c.Outcome, c.At.Sub(start).Milliseconds()))
	}
	want := sim.run(month)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			for _, j := range sim {
				if strings.HasPrefix(got[i], j.id+" ") || strings.HasPrefix(want[i], j.id+" ") {
					t.Errorf("%+v", j)
				}
			}
			t.Fatalf("calls %d of %d: %v; want %v", i, len(got), got[i:i+5], want[i:i+5])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d calls, want %d", len(got), len(want))
	}
	if took > 30*time.Second {
		t.Errorf("a month took %s", took)
	}
}

// What an endpoint pushes while it is called is called in the same advance.
func TestDevPushesDuringAnAdvance(t *testing.T) {
	w := dev(t)
	url, calls := endpoint(t, func(_ http.ResponseWriter, id string, _ int) {
		if n, _ := strconv.Atoi(id); n < 5 {
			_, err := w.Client.Push(context.Background(), "chain", client.Push{
				ID: strconv.Itoa(n + 1), Body: json.RawMessage("1"), Delay: client.After(time.Hour),
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	w.Topic("chain", url)
	if _, err := w.Client.Push(t.Context(), "chain", client.Push{ID: "1", Body: json.RawMessage("1")}); err != nil {
		t.Fatal(err)
	}
	if made := w.Advance(0); len(made) != 1 {
		t.Fatalf("%+v", made)
	}
	if made := w.Advance(10 * time.Hour); len(made) != 4 {
		t.Fatalf("%+v", made)
	}
	if got, want := calls(), []string{"1 1", "2 1", "3 1", "4 1", "5 1"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// Schedules fire at their instants, and groups, ttl, leases and what is remembered follow the clock.
func TestDevClockMovesEverything(t *testing.T) {
	w := dev(t)
	url, calls := endpoint(t, func(http.ResponseWriter, string, int) {})
	w.Topic("report", url)
	w.Topic("short", url)
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	mustPut := func(_ any, _ bool, err error) {
		t.Helper()
		must(nil, err)
	}
	from := w.Now()
	mustPut(w.Client.PutSchedule(ctx, client.Schedule{
		Name: "nightly", Topic: "report", Cron: "0 3 * * *", TimeZone: "Europe/Berlin", Body: json.RawMessage("1"),
	}))
	made := w.Advance(7 * 24 * time.Hour)
	if len(made) != 7 {
		t.Fatalf("%d occurrences in a week: %+v", len(made), made)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range made {
		if at := c.At.In(berlin); at.Hour() != 3 || at.Minute() != 0 || at.Second() != 0 {
			t.Errorf("occurrence %d at %s", i, at)
		}
	}
	if err := w.Client.DeleteSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	if now := w.Now(); !now.Equal(from.Add(7 * 24 * time.Hour)) {
		t.Fatalf("now %s, started at %s", now, from)
	}

	// A closed group opens again by the clock.
	must(w.Client.CancelGroup(ctx, "order-42", 10*time.Minute))
	push := client.Push{ID: "remind", Group: "order-42", Body: json.RawMessage("1"), Delay: client.After(2 * time.Hour)}
	if _, err := w.Client.Push(ctx, "short", push); !errors.Is(err, client.ErrConflict) {
		t.Fatalf("push into the closed group: %v", err)
	}
	w.Advance(10 * time.Minute)
	must(w.Client.Push(ctx, "short", push))

	// A job expires.
	must(w.Client.Push(ctx, "short", client.Push{
		ID: "late", Body: json.RawMessage("1"), Delay: client.After(time.Minute), TTL: 2 * time.Minute,
	}))
	if _, err := w.Client.PauseTopic(ctx, "short", "", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if made := w.Advance(3 * time.Minute); len(made) != 0 {
		t.Fatalf("%+v", made)
	}
	job, err := w.Client.Get(ctx, "short", "late")
	if err != nil || job.State != client.Dead {
		t.Fatalf("%+v, %v; want it expired", job, err)
	}

	// A pause ends by the clock.
	must(w.Client.Push(ctx, "short", client.Push{ID: "waits", Body: json.RawMessage("1")}))
	if _, err := w.Client.PauseTopic(ctx, "short", "stock count", w.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if made := w.Advance(59 * time.Minute); len(made) != 0 {
		t.Fatalf("called during the pause: %+v", made)
	}
	if made := w.Advance(time.Minute); len(made) != 1 || made[0].ID != "waits" {
		t.Fatalf("called after the pause: %+v", made)
	}

	// A worker's lease expires, and the job becomes ready again.
	mustPut(w.Client.PutTopic(ctx, client.Topic{Name: "pulled", Delivery: "pull", TTR: client.Duration(time.Minute)}))
	must(w.Client.Push(ctx, "pulled", client.Push{ID: "p", Body: json.RawMessage("1")}))
	reserved, err := w.Client.Reserve(ctx, client.Reserve{Topics: []string{"pulled"}})
	if err != nil || len(reserved) != 1 {
		t.Fatalf("%+v, %v", reserved, err)
	}
	w.Advance(2 * time.Minute)
	if job, err = w.Client.Get(ctx, "pulled", "p"); err != nil || job.State == client.Running || job.Attempts != 1 {
		t.Fatalf("%+v, %v; want its lease expired", job, err)
	}

	before := len(calls())
	if made := w.Advance(time.Hour); len(made) != 1 || made[0].ID != "remind" {
		t.Fatalf("%+v", made)
	}
	if n := len(calls()) - before; n != 1 {
		t.Fatalf("%d calls", n)
	}
}
