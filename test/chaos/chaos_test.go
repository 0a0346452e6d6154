package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
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
			fmt.Fprintln(os.Stderr, "starting in a mount namespace:", err)
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
	t.Logf("seed %d: the same faults again by make chaos SEED=%d SECONDS=%.0f ONLY=%s MIXED=%s", seed, seed,
		length.Seconds(), only,
		strings.Join(mixed, ","))
	rec, err := newRecorder(recordDir(t))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	s := newSite(t, rec, r, length)
	t.Cleanup(func() { s.keepOrRemove(filepath.Dir(rec.path)) })

	if err := s.pushFar(context.Background()); err != nil {
		t.Fatal(err)
	}
	w := startWorkers(s, seed)
	t.Cleanup(w.stop) // also when the test ends early
	l := startLoad(s, seed)
	t.Cleanup(l.stop)
	problems := s.breakFor(length, &plan{r: r, kinds: catalogue(t, s)})
	l.stop()
	w.calm.Store(true)
	problems = append(problems, s.settle(l)...)
	problems = append(problems, s.judgeFar(context.Background())...)
	w.stop()

	events, err := rec.close()
	if err != nil {
		t.Error(err)
	}
	v := judge(events)
	t.Logf("seed %d\n%s", seed, table(events, v))
	for _, p := range problems {
		t.Error(p)
	}
	for n, wrong := range v.Wrong {
		if n == 20 {
			t.Errorf("… and %d more", len(v.Wrong)-n)
			break
		}
		t.Error(wrong)
	}
}

// breakFor injects faults until the time is over, or the installation does not recover.
func (s *site) breakFor(length time.Duration, p *plan) (problems []error) {
	ctx := context.Background()
	if err := (strike{pause: time.Second}).do(ctx, s); err != nil { // before the first fault
		return []error{err}
	}
	for end := time.Now().Add(length); time.Now().Before(end); {
		if err := p.next(s).do(ctx, s); err != nil {
			return []error{err}
		}
		s.trim()
	}
	return nil
}

// settle waits until everything has drained, checks that new jobs are delivered, and records which jobs are dead.
func (s *site) settle(l *load) (problems []error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.longest+2*time.Minute)
	defer cancel()
	began := time.Now()
	if err := s.waitDrained(ctx); err != nil {
		problems = append(problems, fmt.Errorf("the queues do not drain: %w", err))
	}
	s.t.Logf("drained after %s", time.Since(began).Round(time.Millisecond))
	if err := s.waitCalm(ctx); err != nil {
		problems = append(problems, fmt.Errorf("new jobs are not delivered: %w", err))
	}
	if l.dropper != nil {
		if err := l.dropper.dropRest(ctx); err != nil {
			problems = append(problems, err)
		}
	}
	if err := s.recordDead(ctx); err != nil {
		problems = append(problems, err)
	}
	return problems
}

// catalogue returns every kind of fault that this machine permits and -only selects.
func catalogue(t *testing.T, s *site) []kind {
	t.Helper()
	kinds := slices.Concat(processKinds(), redisKinds(length), databaseKinds(), diskKinds(s), endpointKinds())
	if only != "" {
		kinds = slices.DeleteFunc(kinds, func(k kind) bool {
			return !slices.ContainsFunc(strings.Split(only, ","),
				func(word string) bool { return strings.Contains(k.name, word) })
		})
	}
	if len(kinds) == 0 {
		t.Fatalf("no fault has %q in its name", only)
	}
	return kinds
}

func recordDir(t *testing.T) string {
	t.Helper()
	base := keep
	if base == "" {
		base = os.TempDir()
	}
	return filepath.Join(base, fmt.Sprintf("chaos-%d", seed))
}

// keepOrRemove keeps the record of a failed run, with the logs and journals of both hosts.
func (s *site) keepOrRemove(dir string) {
	if !s.t.Failed() {
		_ = os.RemoveAll(dir)
		return
	}
	for n, h := range s.hosts {
		to := filepath.Join(dir, fmt.Sprintf("host-%d", n+1))
		logs, _ := filepath.Glob(filepath.Join(h.Dir, "*.log")) // the pattern is valid
		journals, _ := filepath.Glob(filepath.Join(h.Dir, "journal", "*"))
		more, _ := filepath.Glob(filepath.Join(h.Data, "journal", "*"))
		for _, file := range slices.Concat(logs, journals, more) {
			if err := copyFile(filepath.Join(to, filepath.Base(file)), file); err != nil {
				s.t.Logf("keeping %s: %v", file, err)
			}
		}
	}
	s.t.Logf("the record of what happened, with logs and journals, is in %s", dir)
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}
