package master

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/master/child"
)

func TestAReloadAddsAndDropsRoles(t *testing.T) {
	dir := tempDir(t)
	o := Options{DataDir: dir, ShutdownTimeout: time.Minute, Roles: []RoleSpec{worker(dir, "a")}}
	next := o
	next.Roles = []RoleSpec{{Name: "timer", Count: 2, Numbered: true}}
	o.Reload = func() (Options, error) { return next, nil }
	stop, result := inProcess(t, o)
	old := psUntil(t, dir, "the worker runs", runs(1))[0].Pid
	if err := At(dir).Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := psUntil(t, dir, "two timers run", runs(2))
	eventually(t, "the dropped role ends", func() bool { return !alive(old) })
	stop()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.Role != "timer" || alive(p.Pid) {
			t.Errorf("%s (%d) was added by the reload and outlived the master", p.Role, p.Pid)
		}
	}
}

// TestManyHangupsAreFewReloads: each reload replaces all processes, and keeps the old ones until they have ended.
func TestManyHangupsAreFewReloads(t *testing.T) {
	dir := tempDir(t)
	o := Options{DataDir: dir, ShutdownTimeout: time.Minute}
	began, goOn := make(chan struct{}, 100), make(chan struct{})
	o.Reload = func() (Options, error) {
		began <- struct{}{}
		<-goOn
		return o, nil
	}
	hup := make(chan os.Signal, 1) // the size in the command line; signal.Notify drops signals that do not fit
	_, _ = hungUp(t, o, hup)
	hup <- syscall.SIGHUP
	<-began
	for range 50 {
		select {
		case hup <- syscall.SIGHUP:
			runtime.Gosched() // so that the master receives each
		default:
		}
	}
	close(goOn)
	<-began
	hup <- syscall.SIGHUP
	<-began
	if n := len(began); n > 0 {
		t.Errorf("%d more reloads began", n)
	}
}

// TestAReloadRefusesAnotherDataDir: its processes would have other jobs, tokens and secrets, and no redis-server.
func TestAReloadRefusesAnotherDataDir(t *testing.T) {
	dir := tempDir(t)
	o := Options{DataDir: dir, ShutdownTimeout: time.Minute, Roles: []RoleSpec{worker(dir, "a")}}
	next := o
	next.DataDir = tempDir(t)
	o.Reload = func() (Options, error) { return next, nil }
	_, _ = inProcess(t, o)
	pid := psUntil(t, dir, "the worker runs", runs(1))[0].Pid
	if err := At(dir).Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "data_dir is now "+next.DataDir) {
		t.Errorf("the reload returned %v", err)
	}
	if now := psUntil(t, dir, "the worker runs", runs(1))[0].Pid; now != pid {
		t.Error("the worker was replaced")
	}
}

// gatedRole is ready when a file exists.
func gatedRole(ctx context.Context, c *child.Child) error {
	var conf struct{ Name, Dir string }
	if err := json.Unmarshal(c.Config, &conf); err != nil {
		return err
	}
	c.SetStatus(func() map[string]any { return map[string]any{"name": conf.Name} })
	for ctx.Err() == nil {
		if _, err := os.Stat(filepath.Join(conf.Dir, "open")); err == nil {
			c.Ready()
			<-ctx.Done()
		}
		time.Sleep(5 * time.Millisecond) // polls for the file
	}
	return nil
}

// TestARestartDuringAReloadKeepsTheNewConfiguration: it must not start the process as it was before.
func TestARestartDuringAReloadKeepsTheNewConfiguration(t *testing.T) {
	dir := tempDir(t)
	gated := func(name string) []RoleSpec {
		spec := worker(dir, name)
		spec.Name = "gated"
		return []RoleSpec{spec}
	}
	o := Options{DataDir: dir, ShutdownTimeout: time.Minute, Roles: gated("old")}
	o.Reload = func() (Options, error) {
		next := o
		next.Roles = gated("new")
		return next, nil
	}
	touch(t, filepath.Join(dir, "open"))
	_, _ = inProcess(t, o)
	psUntil(t, dir, "the process runs", runs(1))
	if err := os.Remove(filepath.Join(dir, "open")); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	go func() { done <- At(dir).Reload(context.Background()) }()
	eventually(t, "its successor is started", func() bool { return strings.Count(children(t), "gated") == 2 })
	go func() { done <- At(dir).Restart(context.Background(), "gated", 1) }()
	eventually(t, "the restart waits", func() bool {
		stacks := make([]byte, 1<<20)
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("(*Master).restart("))
	})
	touch(t, filepath.Join(dir, "open"))
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if p := psUntil(t, dir, "the process runs", runs(1))[0]; !strings.Contains(string(p.Status), "new") {
		t.Errorf("after the reload: %s", p.Status)
	}
}

func TestAStopDoesNotWaitForAReloadThatHangs(t *testing.T) {
	dir := tempDir(t)
	o := Options{DataDir: dir, ShutdownTimeout: time.Minute}
	o.Roles = []RoleSpec{{Name: "timer", Count: 2, Numbered: true}}
	o.Reload = func() (Options, error) {
		return Options{DataDir: dir, Roles: []RoleSpec{{Name: "stuck", Count: 1}, {Name: "timer", Count: 2}}}, nil
	}
	stop, result := inProcess(t, o)
	psUntil(t, dir, "the timers run", runs(2))
	restarted := make(chan error, 1)
	go func() { restarted <- At(dir).Reload(context.Background()) }()
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	go func() { restarted <- At(dir).Restart(context.Background(), "stuck", 0) }() // its successor never becomes ready
	eventually(t, "the successor is started", func() bool { return strings.Count(children(t), "stuck") == 2 })
	began := time.Now()
	stop()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > readyWithin/2 {
		t.Fatalf("the stop took %v", took)
	}
	if err := <-restarted; err == nil {
		t.Fatal("an interrupted restart is reported as done")
	}
}
