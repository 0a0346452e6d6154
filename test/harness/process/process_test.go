package process

import (
	"os"
	"os/exec"
	"testing"

	"github.com/wakecall/wakecall/test/wait"
)

func TestNothingOutlivesItsDirectory(t *testing.T) {
	dir := Dir(t, "guard")
	cmd := exec.Command("sleep", "600")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killBelow(t, dir)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Success() {
		t.Errorf("the process ended with %v, want it killed", cmd.ProcessState)
	}
}

// TestGuard: when a test process is killed, the processes that it started are killed, too.
func TestGuard(t *testing.T) {
	if dir := os.Getenv("PROCESS_GUARDED"); dir != "" {
		sleepGuarded(dir)
		return
	}
	dir := Dir(t, "guarded")
	cmd := exec.Command(os.Args[0], "-test.run=^TestGuard$")
	cmd.Env = append(os.Environ(), "PROCESS_GUARDED="+dir)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("the guarded process succeeded:\n%s", out)
	}
	wait.For(t, "the sleeper to be killed", func() bool { return len(Below(dir)) == 0 })
}

// sleepGuarded starts a sleeper under a guard of its own and exits without stopping it.
func sleepGuarded(dir string) {
	if err := guard(dir); err != nil {
		panic(err)
	}
	cmd := exec.Command("sleep", "600")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	panic("killed")
}
