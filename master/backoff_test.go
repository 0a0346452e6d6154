package master

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/master/child"
)

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	var b backoff
	for _, ms := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000} {
		if got := b.next(time.Second); got != ms*time.Millisecond {
			t.Fatalf("got %s, want %dms", got, ms)
		}
	}
	if got := b.next(stableAfter + 1); got != minBackoff {
		t.Errorf("after a long run: %s", got)
	}
}

// crashRole records when it started, and ends at once.
func crashRole(_ context.Context, c *child.Child) error {
	var dir string
	if err := json.Unmarshal(c.Config, &dir); err != nil {
		return err
	}
	return appendLine(filepath.Join(dir, "starts"), time.Now().Format(time.RFC3339Nano))
}

func starts(t *testing.T, dir string) (list []time.Time) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "starts"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(line))
		if err != nil {
			return list // an incomplete line
		}
		list = append(list, at)
	}
	return list
}

func crash(dir string) RoleSpec {
	conf, _ := json.Marshal(dir)
	return RoleSpec{Name: "crash", Count: 1, Config: conf}
}

func TestAProcessThatKeepsDyingIsStartedLessAndLessOften(t *testing.T) {
	dir := tempDir(t)
	inProcess(t, Options{DataDir: dir, Roles: []RoleSpec{crash(dir)}})
	eventually(t, "four starts", func() bool { return len(starts(t, dir)) >= 4 })
	at := starts(t, dir)
	for i, least := range []time.Duration{minBackoff, 2 * minBackoff, 4 * minBackoff} {
		if gap := at[i+1].Sub(at[i]); gap < least {
			t.Errorf("start %d was %s after the one before, want %s", i+2, gap, least)
		}
	}
	list := psUntil(t, dir, "the restarts are counted", func(list []Process) bool {
		return len(list) == 1 && list[0].Restarts >= 3
	})
	if list[0].LastExit != "exit 0" || list[0].ExitedAt.IsZero() {
		t.Errorf("got %+v", list[0])
	}
}

// TestAReloadEndsAPause: a corrected configuration is tried at once.
func TestAReloadEndsAPause(t *testing.T) {
	dir := tempDir(t)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "wakecall")
	if err := os.WriteFile(broken, nil, 0o600); err != nil { // it cannot be executed
		t.Fatal(err)
	}
	o := Options{DataDir: dir, Executable: broken, Roles: []RoleSpec{{Name: "timer", Count: 1}}}
	o.Reload = func() (Options, error) { return o, nil }
	inProcess(t, o)
	psUntil(t, dir, "the failed start is shown", func(list []Process) bool {
		return len(list) == 1 && list[0].State == "waiting" && strings.Contains(list[0].LastExit, "permission denied")
	})
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(executable, broken); err != nil {
		t.Fatal(err)
	}
	if err := At(dir).Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	psUntil(t, dir, "it runs", runs(1))
}

// TestASocketOutlivesTheProcessThatServesIt: connections made while the server is down are answered by the next one.
func TestASocketOutlivesTheProcessThatServesIt(t *testing.T) {
	dir, addr := tempDir(t), freeAddr(t)
	server := RoleSpec{Name: "server", Count: 1, Config: []byte(`"x"`)}
	server.Listeners = []ListenSpec{{Name: "http", Key: "server.addr", Addr: addr}}
	inProcess(t, Options{DataDir: dir, Roles: []RoleSpec{server}})
	old := psUntil(t, dir, "the server runs", runs(1))[0].Pid
	process, err := os.FindProcess(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is dead", func() bool { return !alive(old) })
	for range 20 {
		if pid, err := dial(addr); err != nil || pid == old {
			t.Fatalf("answered by %d, %v", pid, err)
		}
	}
}

// TestDeathsInARowAreCounted, each within ten minutes of the last.
func TestDeathsInARowAreCounted(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var d deaths
	for _, step := range []struct {
		at    time.Duration
		dies  bool
		n     int
		since time.Duration
	}{
		{at: 0}, {at: 1, dies: true, n: 1, since: 1}, {at: 9, dies: true, n: 2, since: 1},
		{at: 19, dies: true, n: 3, since: 1}, {at: 29, n: 3, since: 1}, {at: 30}, {at: 40, dies: true, n: 1, since: 40},
	} {
		now := began.Add(step.at * time.Minute)
		if step.dies {
			d.add(now)
		}
		n, since := d.lately(now)
		if n != step.n || n > 0 && !since.Equal(began.Add(step.since*time.Minute)) {
			t.Errorf("minute %d: %d since %s", step.at, n, since)
		}
	}
}
