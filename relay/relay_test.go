package relay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/wait"
)

type row = map[string]any

func TestEveryOperationIsCarried(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		body := `{"n": 1.50, "t": "é😀"}`
		push := table.insert(t, row{"op": "push", "topic": "a", "job_id": "x", "body": body, "delay_ms": 60_000})
		created := int64(0)
		if err := table.db.QueryRow("SELECT created_at FROM wakecall_outbox").Scan(&created); err != nil || push != 1 {
			t.Fatal(err)
		}
		table.insert(t, row{"op": "change", "topic": "a", "job_id": "x", "due_at": 5})
		table.insert(t, row{"op": "delete", "topic": "a", "job_id": "x"})
		table.insert(t, row{"op": "cancel_group", "group_name": "g", "options": `{"close":"10m"}`})
		table.insert(t, row{"op": "push", "topic": "b", "options": `{"ttr":"5s"}`})
		newRelay(t, dsn, a, nil).start(t)
		table.empty(t)
		want := []call{{op: "push", topic: "a", id: "x", body: body, due: created + 60_000},
			{op: "change", topic: "a", id: "x", due: 5}, {op: "delete", topic: "a", id: "x"}}
		if got := a.calls("a", "x"); !slices.Equal(got, want) {
			t.Errorf("applied %+v, want %+v", got, want)
		}
		if len(a.calls("", "g")) != 1 || a.total() != 5 {
			t.Errorf("applied %+v", a.applied)
		}
	})
}

// Two relays carry rows in the order of each key and each job, while answers are lost and claims run out: what was
// applied last to each job is its last row, and nothing is applied before an earlier row of its job.
func TestTheOrderOfKeysOutlivesFaults(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		const jobs, rows = 40, 12
		a, table := newAPI(t), openTable(t, dsn)
		var n atomic.Int64
		a.fault = func(call) int {
			switch n.Add(1) % 23 {
			case 3:
				return 503
			case 5:
				return 422
			}
			return 0
		}
		a.lost = func(call) bool { return n.Load()%17 == 0 }
		for i := range rows {
			for j := range jobs {
				r := row{"op": "change", "topic": "a", "job_id": fmt.Sprint(j), "due_at": i}
				if i == 0 {
					r["op"] = "push"
				}
				if j%2 == 0 && i%3 > 0 { // the job still has its order
					r["group_name"] = fmt.Sprint("g", j)
				}
				table.insert(t, r)
			}
		}
		for range 2 {
			newRelay(t, dsn, a, func(o *Options) {
				o.Rows, o.Attempts, o.Pause = 100, 1000, 10*time.Millisecond
			}).start(t)
		}
		table.empty(t)
		for j := range jobs {
			last := int64(-1)
			for _, c := range a.calls("a", fmt.Sprint(j)) {
				if c.due < last || c.due > last+1 {
					t.Errorf("job %d: row %d is applied after %d", j, c.due, last)
				}
				last = c.due
			}
			if last != rows-1 {
				t.Errorf("job %d ends with row %d", j, last)
			}
		}
		if n := a.overlap.Load(); n > 0 {
			t.Errorf("%d calls of a job ran at once", n)
		}
	})
}

// A row that commits after rows with a higher seq is carried, and a relay never waits for it.
func TestRowsCommitOutOfOrder(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		if table.dialect.name == "sqlite" {
			t.Skip("SQLite has one writer at a time")
		}
		tx, err := table.db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		table.insertIn(t, tx, row{"op": "push", "topic": "a", "job_id": "early"})
		table.insert(t, row{"op": "push", "topic": "a", "job_id": "late"})
		newRelay(t, dsn, a, nil).start(t)
		wait.For(t, "the committed row to be carried", func() bool { return len(a.calls("a", "late")) == 1 })
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		wait.For(t, "the other row to be carried", func() bool { return len(a.calls("a", "early")) == 1 })
		table.empty(t)
	})
}

func TestARefusedRowIsSetAside(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		a.fault = func(c call) int {
			if c.body == `"bad"` {
				return 422
			}
			return 0
		}
		bad := table.insert(t, row{"op": "push", "topic": "a", "job_id": "x", "body": `"bad"`})
		behind := table.insert(t, row{"op": "delete", "topic": "a", "job_id": "x"})
		wrong := []int64{
			table.insert(t, row{"op": "shout", "topic": "a"}),
			table.insert(t, row{"op": "push", "topic": "a", "body": "no JSON"}),
			table.insert(t, row{"op": "push", "topic": "a", "options": "[1]"}),
			table.insert(t, row{"op": "push", "topic": "a", "options": `{"delay":"5s"}`}),
			table.insert(t, row{"op": "push"}),
			table.insert(t, row{"op": "cancel_group"}),
		}
		for i := range 300 {
			table.insert(t, row{"op": "push", "topic": "a", "job_id": fmt.Sprint("good-", i)})
		}
		stop := newRelay(t, dsn, a, func(o *Options) { o.Attempts, o.Rows = 1, 10 }).start(t)
		wait.For(t, "the others to be carried", func() bool { return len(table.left(t)) == 2+len(wrong) })
		wait.For(t, "the wrong rows to be set aside", func() bool {
			left := table.left(t)
			return left[bad] == refused && left[behind] == waiting &&
				!slices.ContainsFunc(wrong, func(seq int64) bool { return left[seq] != refused })
		})
		stop()
		list, err := table.SetAside(t.Context(), 100)
		if err != nil || len(list) != 1+len(wrong) || list[0].Seq != bad || list[0].LastError == "" {
			t.Fatalf("set aside: %+v, %v", list, err)
		}
		if s, err := table.State(t.Context()); err != nil || s.SetAside != int64(len(list)) || s.Waiting != 1 {
			t.Errorf("the state is %+v, %v", s, err)
		}
		for _, seq := range wrong {
			if err := table.Drop(t.Context(), seq); err != nil {
				t.Error(err)
			}
		}
		if err := table.Drop(t.Context(), behind); err == nil || !strings.Contains(err.Error(), "relay list") {
			t.Errorf("a row that is not set aside: %v", err)
		}
		a.fault = func(call) int { return 0 }
		if err := table.Retry(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		newRelay(t, dsn, a, nil).start(t)
		table.empty(t)
		if got := a.calls("a", "x"); len(got) != 2 || got[1].op != opDelete {
			t.Errorf("applied %+v", got)
		}
	})
}

func TestRowsBehindOneThatIsSetAsideMayGoOn(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		bad := table.insert(t, row{"op": "push", "topic": "other", "job_id": "x", "order_key": "k"})
		table.insert(t, row{"op": "push", "topic": "shop.a", "job_id": "y", "order_key": "k"})
		newRelay(t, dsn, a, func(o *Options) { o.SkipSetAside, o.Topics = true, []string{"shop.*"} }).start(t)
		wait.For(t, "the later row to be carried", func() bool { return len(a.calls("shop.a", "y")) == 1 })
		wait.For(t, "one row to be left", func() bool { return len(table.left(t)) == 1 })
		if left := table.left(t); left[bad] != refused || a.total() != 1 {
			t.Errorf("left: %v; applied %+v", left, a.applied)
		}
	})
}

// Rows that nobody accepts are retried for ever, whatever the number of attempts.
func TestUnavailableIsNeverCounted(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		var n atomic.Int64
		a.fault = func(call) int {
			return []int{500, 503, 429, 401, 0}[min(n.Add(1)-1, 4)]
		}
		table.insert(t, row{"op": "change", "topic": "a", "job_id": "x"})
		newRelay(t, dsn, a, func(o *Options) { o.Attempts, o.Pause = 1, time.Millisecond }).start(t)
		table.empty(t)
		if n.Load() != 5 || a.total() != 1 {
			t.Errorf("%d calls, %d applied", n.Load(), a.total())
		}
	})
}

func TestNothingToChangeIsDone(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		a.fault = func(call) int { return 404 }
		table.insert(t, row{"op": "change", "topic": "a", "job_id": "x"})
		table.insert(t, row{"op": "delete", "topic": "a", "job_id": "x"})
		table.insert(t, row{"op": "cancel_group", "group_name": "g"})
		newRelay(t, dsn, a, nil).start(t)
		table.empty(t)
	})
}

// A relay that hangs loses its claim: another one carries the rows, and what the first then settles has no effect.
func TestAClaimRunsOut(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		seq := table.insert(t, row{"op": "push", "topic": "a", "job_id": "x"})
		later := table.insert(t, row{"op": "delete", "topic": "a", "job_id": "x"})
		by := rules{rows: 1, lasts: 300 * time.Millisecond}
		old, err := table.claim(t.Context(), "old", by)
		if err != nil || len(old.rows) != 1 || old.rows[0].Seq != seq {
			t.Fatalf("claimed %+v, %v", old, err)
		}
		if c, err := table.claim(t.Context(), "other", rules{rows: 9, lasts: time.Second}); err != nil ||
			len(c.rows) > 0 {
			t.Fatalf("a row behind a claimed one is claimed: %+v, %v", c, err)
		}
		newRelay(t, dsn, a, nil).start(t)
		table.empty(t)
		again := table.insert(t, row{"op": "push", "topic": "a", "job_id": "x", "seq": later + 1})
		if err := table.settle(t.Context(), old.id, []outcome{{row: &Row{Seq: again}}}); err != nil {
			t.Fatal(err)
		}
		if r := newRelay(t, dsn, a, nil); r.mayCall(t.Context(), old) {
			t.Error("a call begins after the claim")
		}
		wait.For(t, "the row to be carried", func() bool { return len(a.calls("a", "x")) == 3 })
	})
}

// A stop finishes the calls that run, and gives back what was not called.
func TestAStopGivesBack(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		entered, leave := make(chan struct{}, 100), make(chan struct{})
		a.fault = func(call) int { entered <- struct{}{}; <-leave; return 0 }
		for i := range 40 {
			table.insert(t, row{"op": "delete", "topic": "a", "job_id": fmt.Sprint(i)})
		}
		stop := newRelay(t, dsn, a, nil).start(t)
		<-entered
		ended := make(chan struct{})
		go func() { defer close(ended); stop() }()
		time.Sleep(20 * time.Millisecond) // for the stop to begin; a later one is as good
		close(leave)
		<-ended
		left := table.left(t)
		for seq, state := range left {
			if state != waiting {
				t.Errorf("row %d is %s", seq, state)
			}
		}
		if a.total()+len(left) != 40 {
			t.Errorf("%d rows are left of 40, %d were applied", len(left), a.total())
		}
	})
}

// Whatever rows several relays claim at once, no key is in two claims, and no row is claimed before an earlier one.
func TestClaimsOfSeveralRelays(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		table := openTable(t, dsn)
		for range 300 {
			r := row{"op": "push", "topic": "a", "job_id": fmt.Sprint(rand.IntN(60))}
			if rand.IntN(2) == 0 {
				r["order_key"] = fmt.Sprint(rand.IntN(20))
			}
			table.insert(t, r)
		}
		var mu sync.Mutex
		held, last, settled := map[string]string{}, map[string]int64{}, 0
		one := func(id string, table *Table) error {
			c, err := table.claim(t.Context(), id, rules{rows: 1 + rand.IntN(30), lasts: time.Minute})
			if err != nil { // on a busy machine, it may be committed
				wait.For(t, "the rows to be given back", func() bool {
					_, err := table.db.Exec(table.sql("UPDATE @table SET "+free+" WHERE claimed_by = ?"), id)
					return err == nil
				})
				return err
			}
			var outcomes []outcome
			mu.Lock()
			for i := range c.rows {
				for _, name := range c.rows[i].names() {
					if held[name] != "" && held[name] != id {
						t.Errorf("%s is in the claims %s and %s", name, held[name], id)
					}
					if last[name] > c.rows[i].Seq {
						t.Errorf("%s: row %d is claimed after %d", name, c.rows[i].Seq, last[name])
					}
					held[name], last[name] = id, c.rows[i].Seq
				}
				outcomes = append(outcomes, outcome{row: &c.rows[i]})
			}
			mu.Unlock()
			mu.Lock()
			for i := range c.rows {
				for _, name := range c.rows[i].names() {
					held[name] = ""
				}
			}
			settled += len(c.rows)
			mu.Unlock()
			wait.For(t, "the settle", func() bool { return table.settle(t.Context(), c.id, outcomes) == nil })
			return nil
		}
		var relays sync.WaitGroup
		for n := range 3 {
			table := openTable(t, dsn)
			relays.Go(func() {
				for i := 0; ; i++ {
					mu.Lock()
					done := settled == 300
					mu.Unlock()
					if done || t.Failed() {
						return
					}
					if err := one(fmt.Sprintf("%d-%d", n, i), table); err != nil {
						t.Log(err)
					}
				}
			})
		}
		relays.Wait()
		table.empty(t)
	})
}

func TestAMissingTableIsExplained(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		table, err := Open(dsn, "my_outbox")
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		_, err = table.claim(t.Context(), "x", rules{rows: 1})
		if err == nil || !strings.Contains(err.Error(), "wakecall relay ddl "+table.dialect.name+" --table my_outbox") {
			t.Error(err)
		}
	})
}

func TestSecretsOfADSNAreNotShown(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"postgres://u:geheim@[::1/x", "mysql://u:geheim@host/x", "oracle://u:geheim@h/x",
		"sqlite://" + t.TempDir() + "/missing"} {
		_, err := Open(dsn, "t")
		if err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

// A relay whose database goes away after a call, before it has settled: another one repeats that row alone, and goes on
// with the later ones.
func TestALostSettleRepeatsTheLastRow(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		quick := func(o *Options) { o.Claim, o.CallTimeout = 2*time.Second, 200*time.Millisecond }
		first := newRelay(t, dsn, a, quick)
		for i := range 6 {
			table.insert(t, row{"op": "change", "topic": "a", "job_id": "x", "due_at": i, "group_name": "g"})
		}
		var n atomic.Int64
		a.fault = func(call) int {
			if n.Add(1) == 3 {
				_ = first.Table.Close() // as a kill does
			}
			return 0
		}
		c, err := first.Table.claim(t.Context(), "first", rules{rows: 9, lasts: 2 * time.Second})
		if err != nil || len(c.rows) != 6 {
			t.Fatalf("claimed %+v, %v", c, err)
		}
		if _, err := first.carry(t.Context(), c); err == nil {
			t.Fatal("a settle without a database succeeded")
		}
		newRelay(t, dsn, a, quick).start(t)
		table.empty(t)
		var got []int64
		for _, c := range a.calls("a", "x") {
			got = append(got, c.due)
		}
		if want := []int64{0, 1, 2, 2, 3, 4, 5}; !slices.Equal(got, want) {
			t.Errorf("applied %v, want %v", got, want)
		}
	})
}

// A hanging server holds a relay up no longer than its calls may take, and never makes it call after its claim.
func TestAServerThatHangs(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		var hangs atomic.Bool
		hangs.Store(true)
		a.fault = func(call) int {
			if hangs.Load() {
				time.Sleep(300 * time.Millisecond) // longer than CallTimeout
				return 503
			}
			return 0
		}
		for i := range 50 {
			table.insert(t, row{"op": "delete", "topic": "a", "job_id": fmt.Sprint(i)})
		}
		r := newRelay(t, dsn, a, func(o *Options) {
			o.Claim, o.CallTimeout, o.Pause = 2*time.Second, 100*time.Millisecond, time.Millisecond
		})
		c, err := r.Table.claim(t.Context(), "first", rules{rows: 50, lasts: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		sum, err := r.carry(t.Context(), c)
		if err != nil || sum.answered || sum.unavailable == "" {
			t.Errorf("carried: %+v, %v", sum, err)
		}
		for seq, state := range table.left(t) {
			if state != waiting && state != retrying {
				t.Errorf("row %d is %s", seq, state)
			}
		}
		hangs.Store(false)
		r.start(t)
		table.empty(t)
	})
}

// While a row waits for its next attempt, /healthz still says why; when there is none, nothing hinders the relay.
func TestAProblemStaysUntilRowsAreAccepted(t *testing.T) {
	each(t, func(t *testing.T, dsn string) {
		a, table := newAPI(t), openTable(t, dsn)
		a.fault = func(call) int { return 503 }
		table.insert(t, row{"op": "delete", "topic": "a", "job_id": "x"})
		r := newRelay(t, dsn, a, func(o *Options) { o.Pause = time.Hour })
		for range 2 { // the second one finds no row that is due
			if _, err := r.round(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r.Problem() == "" {
				t.Error("the relay has no problem")
			}
		}
		if _, err := table.db.Exec(table.sql("DELETE FROM @table")); err != nil {
			t.Fatal(err)
		}
		r.start(t)
		wait.For(t, "the problem to end", func() bool { return r.Problem() == "" })
	})
}
