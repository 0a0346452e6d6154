package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// buildOff builds the wakecall under test with a wrong wall clock. Go gets the time from the kernel, so it cannot be
// changed from outside of the program. The standard library's time.Now is replaced by one that adds an offset.
func buildOff(t testing.TB, off time.Duration) (path string) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT: %v", err)
	}
	original := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	changed := strings.Replace(string(source), now, fmt.Sprintf("%s\tsec += %d\n", now, int64(off/time.Second)), 1)
	if changed == string(source) {
		t.Fatalf("time.Now in %s has changed; update this test", original)
	}
	dir := process.Dir(t, "clock")
	file, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	for name, content := range map[string]string{
		file: changed, overlay: fmt.Sprintf(`{"Replace": {%q: %q}}`, original, file),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return harness.Build(t, "-overlay", overlay)
}
