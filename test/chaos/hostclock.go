package chaos

import (
	"encoding/json"
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
	const now = "\tsec, nsec, mono := runtimeNow()\n"
	head, rest, found := strings.Cut(string(source), "func Now() Time {\n"+now)
	if !found {
		t.Fatalf("time.Now in %s has changed; update this test", original)
	}
	dir := process.Dir(t, "clock")
	changed, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	text := fmt.Sprintf("%sfunc Now() Time {\n%s\tsec += %d\n%s", head, now, int64(off/time.Second), rest)
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{changed: []byte(text), overlay: replaced} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return harness.Build(t, "-overlay", overlay)
}
