package test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// TestDevRoutesAreOnlyThere: on any other installation nobody moves a clock.
func TestDevRoutesAreOnlyThere(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	i.API.MustDo(t, 404, "GET", "/v1/dev/now", nil)
	i.API.MustDo(t, 404, "POST", "/v1/dev/advance", M{"by": "1h"})
}

// devProcess is a running `wakecall dev`.
type devProcess struct {
	*exec.Cmd
	dir string // its working directory and its temporary files
	api *harness.API
}

// startDev starts one where a configuration file cannot be read, and variables name a Redis and a port that do not
// exist.
func startDev(t *testing.T) *devProcess {
	t.Helper()
	needProcesses(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "wakecall.yaml"), []byte("nonsense: [\n"), 0o600))
	d := &devProcess{Cmd: exec.Command(harness.Binary(t), "dev", "--token", "secret-of-the-test"), dir: dir}
	var said bytes.Buffer
	d.Dir, d.Stderr = dir, &said
	d.Env = append(os.Environ(), "TMPDIR="+dir, "WAKECALL_REDIS_NODES=redis://127.0.0.1:1",
		"WAKECALL_SERVER_ADDR=127.0.0.1:1", "WAKECALL_SERVER_ADR=nonsense", "WAKECALL_CONFIG=/no/such.yaml")
	out, err := d.StdoutPipe()
	must(t, err)
	must(t, d.Start())
	t.Cleanup(func() {
		_ = d.Process.Kill()
		_ = d.Wait()
	})
	lines := bufio.NewScanner(out)
	for _, name := range []string{"WAKECALL_URL=", "WAKECALL_TOKEN="} {
		if !lines.Scan() {
			_ = d.Wait()
			t.Fatalf("it did not start: %s", said.String())
		}
		value, found := strings.CutPrefix(lines.Text(), name)
		if !found {
			t.Fatalf("it prints %q; want %s…", lines.Text(), name)
		}
		if name == "WAKECALL_URL=" {
			d.api = harness.NewAPI(value, "secret-of-the-test")
		} else if value != "secret-of-the-test" {
			t.Fatalf("the token is %q", value)
		}
	}
	d.api.MustDo(t, 200, "POST", "/v1/dev/advance", M{"by": "1h"})
	if n := d.processes(); n < 3 {
		t.Fatalf("%d processes; want at least the master, its child and a redis-server", n)
	}
	return d
}

// processes returns how many there are: their working directories are the test's, or the temporary one below it.
func (d *devProcess) processes() int { return len(process.Below(d.dir)) }

func (d *devProcess) waitUntilAllHaveEnded(t *testing.T) {
	t.Helper()
	harness.Eventually(t, harness.Patience, "the end of all processes", func() error {
		if left := process.Below(d.dir); len(left) > 0 {
			return fmt.Errorf("%+v run", left)
		}
		return nil
	})
}

// TestDevLeavesNothing when it is told to end.
func TestDevLeavesNothing(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	must(t, d.Process.Signal(syscall.SIGTERM))
	must(t, d.Wait())
	d.waitUntilAllHaveEnded(t)
	left, err := os.ReadDir(d.dir)
	must(t, err)
	if len(left) != 1 || left[0].Name() != "wakecall.yaml" {
		t.Errorf("it left %v", left)
	}
}

// TestDevKilledLeavesNoProcess: the others notice that the master is gone, and end.
func TestDevKilledLeavesNoProcess(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	must(t, d.Process.Kill())
	_ = d.Wait()
	d.waitUntilAllHaveEnded(t)
}
