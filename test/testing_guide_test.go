package test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/test/harness"
	orders "github.com/wakecall/wakecall/test/shop"
)

const testingGuide = "../docs/guides/testing.md"

// TestTestingGuideCommands runs the commands of the page in their order, and finds what it says that one sees.
func TestTestingGuideCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(testingGuide)
	must(t, err)
	sees := []string{
		"", `"name":"order.close"`, `"state":"delayed"`, `"calls":[]`, `"attempt":1,`, `"attempt":10,`, `{"now":"`, "",
	}
	commands := fences(string(page), "sh")
	if len(commands) != len(sees) {
		t.Fatalf("the page has %d commands; this test knows what to see after %d", len(commands), len(sees))
	}
	reader := newReader(t)
	for n, command := range commands {
		reader.types(command, sees[n])
	}
	if screen := reader.screen(); !strings.Contains(screen, `"status":0,"outcome":"retry"}]}`) ||
		!strings.Contains(screen, `"status":0,"outcome":"dead"}]}`) {
		t.Errorf("the screen shows %s", screen)
	}
}

// TestTestingGuidePrograms runs the tests that the page shows, those of other languages by the few lines of their
// frameworks that are in testdata/frameworks.
func TestTestingGuidePrograms(t *testing.T) {
	page, err := os.ReadFile(testingGuide)
	must(t, err)
	frameworks, err := filepath.Abs("testdata/frameworks")
	must(t, err)
	junit, err := filepath.Glob(frameworks + "/org/junit/jupiter/api/*.java")
	must(t, err)
	for _, one := range []struct {
		language, file string
		commands       [][]string
		says           string
	}{
		{"php", "UnpaidOrderTest.php", [][]string{
			{"php", frameworks + "/phpunit.php", "UnpaidOrderTest.php"},
		}, "2 passed, 0"},
		{"python", "test_unpaid.py", [][]string{
			{"python3", frameworks + "/pytest.py", "test_unpaid.py"},
		}, "2 passed, 0"},
		{"js", "unpaid.test.mjs", [][]string{{"node", "--test", "unpaid.test.mjs"}}, "pass 2"},
		{"java", "UnpaidOrderTest.java", [][]string{
			append([]string{"javac", "-encoding", "UTF-8", "-d", ".", "UnpaidOrderTest.java"}, junit...),
			{"java", "-cp", ".", "org.junit.jupiter.api.Run", "UnpaidOrderTest"},
		}, "2 passed, 0"},
	} {
		t.Run(one.language, func(t *testing.T) {
			if _, err := exec.LookPath(one.commands[0][0]); err != nil {
				t.Skipf("SKIPPED: %s is not installed (make need-all installs it)", one.commands[0][0])
			}
			blocks := fences(string(page), one.language)
			if len(blocks) != 1 {
				t.Fatalf("the page has %d programs", len(blocks))
			}
			w := dev(t)
			app := httptest.NewServer(orders.New(w.Client))
			t.Cleanup(app.Close)
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, one.file), []byte(blocks[0]), 0o600))
			env := append(os.Environ(), "APP_URL="+app.URL, "WAKECALL_URL="+w.URL, "WAKECALL_TOKEN="+w.Token)
			said := ""
			for _, command := range one.commands {
				said = output(t, dir, env, command...)
			}
			if !strings.Contains(said, one.says) {
				t.Errorf("it says %s", said)
			}
		})
	}
}

// TestTestingGuideGo runs the test of the page beside the service that it tests.
func TestTestingGuideGo(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(testingGuide)
	must(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "guide_test.go")
	must(t, os.WriteFile(file, []byte(fences(string(page), "go")[0]), 0o600))
	beside, err := filepath.Abs("shop/guide_test.go")
	must(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{beside: file}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	env := append(os.Environ(), "WAKECALL_BINARY="+harness.Binary(t))
	said := output(t, ".", env, "go", "test", "-count=1", "-v", "-overlay", filepath.Join(dir, "overlay.json"),
		"./shop")
	if !strings.Contains(said, "--- PASS: TestUnpaidOrderIsClosed") {
		t.Errorf("it says %s", said)
	}
}

// output runs a command, which must succeed, and returns what it says.
func output(t *testing.T, dir string, env []string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, env
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, said)
	}
	return string(said)
}
