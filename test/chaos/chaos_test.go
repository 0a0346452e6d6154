package chaos

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// TestChaos is the suite, see the package's documentation.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("breaks real processes; run without -short")
	}
	length, seed := setting("CHAOS_SECONDS", 60), uint64(setting("CHAOS_SEED", int(time.Now().UnixNano()%1e6)))
	t.Logf("seed %d, %d seconds", seed, length)
	s := newSuite(t, seed)
	faults := slices.DeleteFunc(s.faults(), func(f fault) bool { return !strings.Contains(f.name, os.Getenv("CHAOS_ONLY")) })
	if len(faults) == 0 {
		t.Fatalf("no fault is called %q", os.Getenv("CHAOS_ONLY"))
	}
	stop := startLoad(s.book, []*harness.API{s.hosts[0].Quick(), s.hosts[1].Quick()}, 6, s.rng)
	defer stop()
	for end := time.Now().Add(time.Duration(length) * time.Second); time.Now().Before(end); {
		s.strike(s.choose(faults))
	}
	stop()
	s.settle()
	s.report()
}

func setting(name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}
