package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/ledger"
)

// apart marks a process that has its own mount namespace.
const apart = "WAKECALL_CHAOS_APART"

// TestMain runs the tests in their own mount namespace, where that is permitted: disks can be mounted there to be
// filled, and none outlives the run.
func TestMain(m *testing.M) {
	if unshare, err := exec.LookPath("unshare"); err == nil && os.Getenv(apart) == "" {
		args := []string{unshare, "-m"}
		if os.Geteuid() != 0 {
			args = append(args, "-r")
		}
		if exec.Command(unshare, append(args[1:], "true")...).Run() == nil {
			err := syscall.Exec(unshare, append(args, os.Args...), append(os.Environ(), apart+"=1"))
			fmt.Fprintln(os.Stderr, "start in a mount namespace:", err)
		}
	}
	os.Exit(m.Run())
}

// TestChaos: whatever fails, every accepted job is called, or is dead and visible, or was deleted; none is called
// early, none after its deletion was answered, none twice without a fault; and when all faults are over, the queues
// drain and new jobs are delivered.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes; run without -short")
	}
	t.Logf("seed %d: the same faults again by make chaos SEED=%d SECONDS=%.0f CHAOS_DEPLOYMENT=%s "+
		"CHAOS_DATABASE=%s ONLY=%s MIXED=%s", seed, seed, length.Seconds(), deployment, databaseKind, only,
		strings.Join(mixed, ","))
	r := rand.New(rand.NewPCG(seed, 0))
	s := newSite(t, r)
	t.Cleanup(s.keep)
	if err := s.pushFar(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.startTick()
	workers := s.startWorkers(seed)
	loads := []*harness.Load{
		harness.StartClients(t, pushers, rate, func(n int) harness.Client { return s.pusher(seed, n).request }),
	}
	dropper := s.pusher(seed, pushers)
	if mixes("drop") {
		loads = append(loads, harness.StartClients(t, 1, 0, func(int) harness.Client { return dropper.passAndDrop }))
	}
	problems := []error{s.breakFor(r)}
	for _, l := range loads {
		l.Stop()
	}
	workers.calm.Store(true)
	problems = append(problems, s.settle(dropper)...)
	workers.Stop()
	s.report(t, problems)
}

func (s *site) report(t *testing.T, problems []error) {
	t.Helper()
	events := s.rec.Events()
	v := ledger.Judge(events)
	t.Logf("seed %d\n%s\n%s", seed, faultTable(events), v)
	for _, p := range problems {
		if p != nil {
			t.Error(p)
		}
	}
	v.Report(t)
	ledger.CheckHistories(events, historiesLimit).Report(t)
}

// historiesLimit bounds the search for explanations of all jobs of a run.
const historiesLimit = 5 * time.Minute

// breakFor injects faults until the time is over, or the installation does not recover.
func (s *site) breakFor(r *rand.Rand) error {
	p := &plan{r: r, kinds: chosen(catalogue(s), only)}
	if len(p.kinds) == 0 {
		return fmt.Errorf("no fault has %q in its name", only)
	}
	ctx := context.Background()
	var faults []*fault // none at first
	for end := time.Now().Add(length); ; {
		if err := errors.Join(s.strike(ctx, faults), s.trim(), s.backUp()); err != nil || time.Now().After(end) {
			return err
		}
		faults = p.next(s)
		time.Sleep(between(r, 200*time.Millisecond, 1700*time.Millisecond))
	}
}

// settle waits until everything has drained, checks that new jobs are delivered, and records which jobs are dead.
func (s *site) settle(dropper *pusher) (problems []error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.longest+2*time.Minute)
	defer cancel()
	began := time.Now()
	for _, step := range []struct {
		failed string
		do     func(context.Context) error
	}{
		{"the schedule does not catch up", s.stopTick},
		{"the queues do not drain", s.waitDrained},
		{"new jobs are not delivered", s.waitCalm},
		{"the last drop", dropper.dropRest},
		{"list the dead", s.recordDead},
		{"jobs that wait", s.checkFar},
		{"the occurrences of the schedule", s.recordTicks},
	} {
		if err := step.do(ctx); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", step.failed, err))
		}
	}
	s.t.Logf("settled after %s", time.Since(began).Round(time.Millisecond))
	return problems
}

// keep keeps the record of a failed run, with the files of both hosts.
func (s *site) keep() {
	if !s.t.Failed() {
		return
	}
	dir := filepath.Join(keep, fmt.Sprintf("chaos-%d", seed))
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = s.rec.Write(filepath.Join(dir, "record.jsonl"))
	}
	for n, h := range s.hosts {
		err = errors.Join(err, exec.Command("cp", "-a", h.Dir, filepath.Join(dir, fmt.Sprintf("host-%d", n+1))).Run())
	}
	s.t.Logf("the record of what happened, with logs and journals, is in %s (%v)", dir, err)
}
