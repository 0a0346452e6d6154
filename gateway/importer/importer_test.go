package importer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// TestAnImportMovesAllThatWaits, reports its progress, and leaves no claim.
func TestAnImportMovesAllThatWaits(t *testing.T) {
	m := newMove(t, "1", "2", "3", "4", "5")
	m.run(t, Report{Topics: 1, Made: 1, Waiting: 5, Imported: 5})
	if len(m.jobs.stored) != 5 || len(m.old.claimed) != 0 || len(m.reports) != 3 || m.reports[1].Imported != 4 {
		t.Errorf("stored %v, claimed %v, reported %+v", m.jobs.stored, m.old.claimed, m.reports)
	}
	m.run(t, Report{Topics: 1}) // a second one finds nothing to do
}

// TestADryRunChangesNothing, and takes no lock: an import may be running. It counts tokens, too.
func TestADryRunChangesNothing(t *testing.T) {
	m := newMove(t, "1", "2", "3")
	m.DryRun = true
	m.old.prepare = func(r *Report) error {
		r.Tokens = 2
		return nil
	}
	m.run(t, Report{Topics: 1, Made: 1, Tokens: 2, Waiting: 3})
	if m.old.locked || m.old.claims > 0 || len(m.jobs.stored)+len(m.registry.topics) > 0 {
		t.Errorf("locked %t, %d claims, stored %v, registered %v", m.old.locked, m.old.claims, m.jobs.stored,
			m.registry.topics)
	}
}

// TestTheLaterJobOfAnIDStays: a job that was pushed here after the old system's one is kept; an earlier one is
// replaced.
func TestTheLaterJobOfAnIDStays(t *testing.T) {
	m := newMove(t, "newer", "older", "other")
	m.jobs.stored["newer"] = store.Job{Body: []byte("here"), CreatedAt: time.Now()}
	m.jobs.stored["older"] = store.Job{Body: []byte("here"), CreatedAt: time.Now().Add(-2 * time.Hour)}
	m.run(t, Report{Topics: 1, Made: 1, Waiting: 3, Imported: 2, Kept: 1})
	if a, b := string(m.jobs.stored["newer"].Body), string(m.jobs.stored["older"].Body); a != "here" || b != "older" {
		t.Errorf("the jobs are %s and %s", a, b)
	}
	if len(m.old.claimed) > 0 {
		t.Errorf("claims are left: %v", m.old.claimed)
	}
}

// TestAJobThatWasTakenHereDoesNotReplaceOneThatWaits: a system that does not record when it accepted a job has the id
// again, while Wakecall's consumers have the job of an earlier claim. A job that was stored after the claim is the
// claim's own.
func TestAJobThatWasTakenHereDoesNotReplaceOneThatWaits(t *testing.T) {
	m := newMove(t, "running", "dead", "ready", "own")
	now := time.Now()
	for i := range m.old.waiting {
		m.old.waiting[i].Added, m.old.waiting[i].Claimed = time.Time{}, now
	}
	before := now.Add(-time.Second)
	maps.Copy(m.jobs.stored, map[string]store.Job{
		"running": {State: store.Running, CreatedAt: before}, "dead": {State: store.Dead, CreatedAt: before},
		"ready": {State: store.Ready, CreatedAt: before}, "own": {State: store.Running, CreatedAt: now},
	})
	m.run(t, Report{Topics: 1, Made: 1, Waiting: 4, Imported: 2, Kept: 2})
	if fmt.Sprint(m.jobs.pushed) != "[running dead]" {
		t.Errorf("pushed %v", m.jobs.pushed)
	}
}

// TestAJobThatIsRefusedStaysClaimed: it is counted, the log names it, and the others are imported.
func TestAJobThatIsRefusedStaysClaimed(t *testing.T) {
	m := newMove(t, "1", "bad\nid", "3")
	m.run(t, Report{Topics: 1, Made: 1, Waiting: 3, Imported: 2, Refused: 1})
	if _, claimed := m.old.claimed["bad\nid"]; !claimed || len(m.old.claimed) != 1 {
		t.Errorf("claims are left: %v", m.old.claimed)
	}
	if text := m.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `id="bad\nid"`) ||
		!strings.Contains(text, "not a printable character") {
		t.Errorf("logged %s", text)
	}
}

// TestADueTimeIsAtMostTenYearsAhead, like that of a push through a gateway.
func TestADueTimeIsAtMostTenYearsAhead(t *testing.T) {
	m := newMove(t, "1")
	m.old.waiting[0].Push.DueAt = time.Now().Add(2 * store.MaxDelay)
	m.run(t, Report{Topics: 1, Made: 1, Waiting: 1, Imported: 1})
	if p := m.jobs.last; p.Delay != store.MaxDelay || !p.DueAt.IsZero() {
		t.Errorf("pushed %+v", p)
	}
}

// TestAnImportEndsWithoutAShard: stored jobs of the claim are dropped in the old system, the rest is left to the next
// import.
func TestAnImportEndsWithoutAShard(t *testing.T) {
	m := newMove(t, "1", "2", "3")
	m.jobs.errs["2"] = &store.UnavailableError{Reason: "full", Err: errors.New("OOM")}
	r, err := Run(t.Context(), m.Options)
	if !errors.As(err, new(*store.UnavailableError)) || !strings.Contains(err.Error(), "orders/2") || r.Imported != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, claimed := m.old.claimed["2"]; !claimed || len(m.old.claimed) != 1 || len(m.old.waiting) != 1 {
		t.Errorf("claimed %v, waiting %v", m.old.claimed, m.old.waiting)
	}
}

// TestTopicsStayAsTheyAreHere. If some are invalid, all of these are named and none is registered.
func TestTopicsStayAsTheyAreHere(t *testing.T) {
	m := newMove(t)
	ours := registry.NewTopic("orders")
	ours.Title = "ours"
	m.registry.topics = []*registry.Topic{&ours}
	m.run(t, Report{Topics: 1})
	if len(m.registry.topics) != 1 || m.registry.topics[0].Title != "ours" {
		t.Errorf("registered %+v", m.registry.topics)
	}
	good, bad, worse := m.old.topics[0], m.old.topics[0], m.old.topics[0]
	good.Name, bad.Name, worse.CallbackURL = "good", "Bad Name", "ftp://x.example/"
	m.old.topics = []registry.Topic{good, bad, worse}
	_, err := Run(t.Context(), m.Options)
	if err == nil || !strings.Contains(err.Error(), "Bad Name") || !strings.Contains(err.Error(), "callback_url") ||
		strings.Contains(err.Error(), "good") || len(m.registry.topics) != 1 {
		t.Errorf("%v, registered %+v", err, m.registry.topics)
	}
}

// TestEveryErrorEndsAnImport before the next step begins.
func TestEveryErrorEndsAnImport(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection refused")
	for _, method := range []string{"Lock", "Topics", "Waiting", "Left", "Claim", "Drop", "prepare", "topic"} {
		t.Run(method, func(t *testing.T) {
			m := newMove(t, "1")
			switch method {
			case "prepare":
				m.old.prepare = func(*Report) error { return broken }
			case "topic":
				m.registry.err = broken
			default:
				m.old.err[method] = broken
			}
			if _, err := Run(t.Context(), m.Options); !errors.Is(err, broken) {
				t.Errorf("it ended with %v", err)
			}
			if method != "Drop" && len(m.jobs.pushed) > 0 {
				t.Errorf("pushed %v", m.jobs.pushed)
			}
		})
	}
}

// TestAnImportFollowsUntilItIsStopped, and then reports what is left.
func TestAnImportFollowsUntilItIsStopped(t *testing.T) {
	m := newMove(t, "1")
	m.Follow = true
	ctx, stop := context.WithCancel(t.Context())
	m.old.claim = func() {
		switch m.old.claims {
		case 2: // no jobs: it waits for producers
			m.old.waiting = append(m.old.waiting, oldJob("2"))
		case 3:
			m.old.waiting = []Job{oldJob("3"), oldJob("4")}
			m.old.err["Claim"] = context.Canceled
			stop()
		}
	}
	r, err := Run(ctx, m.Options)
	if want := (Report{Topics: 1, Made: 1, Waiting: 1, Imported: 2, Left: 2}); err != nil || r != want {
		t.Errorf("%+v, %v; want %+v", r, err, want)
	}
}

// TestAFollowingImportContinuesAfterErrors of either system: it locks the old system again, and imports what it had
// claimed. The log has each error.
func TestAFollowingImportContinuesAfterErrors(t *testing.T) {
	m := newMove(t, "1", "2")
	m.Follow = true
	ctx, stop := context.WithCancel(t.Context())
	calls := 0
	m.old.claim = func() {
		switch calls++; calls {
		case 1:
			m.old.err["Claim"] = errors.New("the old Redis is away")
		case 2:
			m.old.err["Claim"], m.old.locked = nil, false
			m.jobs.errs["1"] = &store.UnavailableError{Reason: "down", Err: errors.New("the shard is away")}
			m.old.left = []Job{m.old.waiting[0]}
		case 3:
			stop()
		}
	}
	m.old.prepare = func(*Report) error {
		if calls == 2 {
			delete(m.jobs.errs, "1")
		}
		return nil
	}
	r, err := Run(ctx, m.Options)
	if want := (Report{Topics: 1, Made: 1, Waiting: 2, Imported: 2, Resumed: 1}); err != nil || r != want {
		t.Errorf("%+v, %v; want %+v", r, err, want)
	}
	if text := m.log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "the old Redis is away") ||
		!strings.Contains(text, "the shard is away") || !m.old.locked {
		t.Errorf("logged %s", text)
	}
}

// TestAFollowingImportThatIsStoppedAfterAnErrorReportsIt, because jobs may be left in claims.
func TestAFollowingImportThatIsStoppedAfterAnErrorReportsIt(t *testing.T) {
	m := newMove(t, "1")
	m.Follow = true
	ctx, stop := context.WithCancel(t.Context())
	broken := errors.New("connection refused")
	m.old.err["Claim"] = broken
	m.Logger = slog.New(slog.NewTextHandler(writer(func() { stop() }), nil))
	if _, err := Run(ctx, m.Options); !errors.Is(err, broken) {
		t.Errorf("it ended with %v", err)
	}
}

// writer calls a function for each line.
type writer func()

func (w writer) Write(line []byte) (int, error) {
	w()
	return len(line), nil
}

// TestAStopEndsAnImportAfterItsClaim: all jobs of the claim are pushed here, and dropped there.
func TestAStopEndsAnImportAfterItsClaim(t *testing.T) {
	m := newMove(t, "1", "2", "3")
	ctx, stop := context.WithCancel(t.Context())
	m.old.claim = stop
	r, err := Run(ctx, m.Options)
	if !errors.Is(err, context.Canceled) || r.Imported != 2 || len(m.old.claimed) != 0 || len(m.old.waiting) != 1 {
		t.Errorf("%+v, %v; claimed %v, waiting %v", r, err, m.old.claimed, m.old.waiting)
	}
}

// TestWhatAnInterruptedImportHasPushedIsNotPushedAgain: a job was pushed if the journal has its line, the shard has the
// job, or it was called since the claim. All others are pushed.
func TestWhatAnInterruptedImportHasPushedIsNotPushedAgain(t *testing.T) {
	m := newMove(t)
	claimed := time.Now().Add(-time.Minute)
	for _, id := range []string{"journal", "stored", "called", "earlier", "called-earlier", "unpushed"} {
		job := oldJob(id)
		job.Push.Via, job.Claimed = "import old 7", claimed
		m.old.left, m.old.claimed[id] = append(m.old.left, job), job
	}
	j, err := journal.Open(journal.Options{Dir: m.Journal})
	if err != nil {
		t.Fatal(err)
	}
	attempt := func(id string, created time.Time) journal.AttemptLine {
		return journal.AttemptLine{
			Topic: "orders", ID: id, CreatedAt: created, N: 1, StartedAt: created, Outcome: journal.Done,
		}
	}
	err = errors.Join(j.Requests([]journal.RequestLine{
		{Op: journal.OpPush, Topic: "orders", ID: "journal", Via: "import old 7"},
		{Op: journal.OpPush, Topic: "orders", ID: "unpushed", Via: "import old 6"}, // of another claim
		{Op: journal.OpPush, Topic: "other", ID: "unpushed", Via: "import old 7"},
	}), j.Attempts([]journal.AttemptLine{
		attempt("called", claimed.Add(time.Second)), attempt("called-earlier", claimed.Add(-time.Second)),
		attempt("elsewhere", claimed.Add(time.Second)),
	}), j.Close())
	if err != nil {
		t.Fatal(err)
	}
	m.jobs.stored["stored"] = store.Job{CreatedAt: claimed.Add(time.Second)}
	m.jobs.stored["earlier"] = store.Job{CreatedAt: claimed.Add(-2 * time.Hour)} // before it was added there
	m.run(t, Report{Topics: 1, Made: 1, Resumed: 6, Imported: 3})
	slices.Sort(m.jobs.pushed)
	if got := strings.Join(m.jobs.pushed, " "); got != "called-earlier earlier unpushed" || len(m.old.claimed) > 0 {
		t.Errorf("pushed %s, claims are left: %v", got, m.old.claimed)
	}
	if via := m.jobs.vias["unpushed"]; via != "import old 7" {
		t.Errorf("it was imported by the claim %q", via)
	}
}

// TestAResumeThatCannotLookPushesNothing, because it could push jobs again that were already called.
func TestAResumeThatCannotLookPushesNothing(t *testing.T) {
	m := newMove(t)
	job := oldJob("1")
	job.Push.Via = "import old 7"
	m.old.left = []Job{job}
	m.jobs.errs["Find"] = &store.UnavailableError{Reason: "down", Err: errors.New("connection refused")}
	if r, err := Run(t.Context(), m.Options); err == nil || len(m.jobs.pushed) > 0 || r.Resumed != 1 {
		t.Errorf("%+v, %v, pushed %v", r, err, m.jobs.pushed)
	}
}
