package master

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// manager listens on $NOTIFY_SOCKET, as systemd does.
func manager(t *testing.T) (told func(want string) string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func(want string) string {
		t.Helper()
		b := make([]byte, 4096)
		_ = l.SetReadDeadline(time.Now().Add(time.Minute))
		for {
			n, err := l.Read(b)
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if text := string(b[:n]); strings.Contains(text, want) {
				return text
			}
		}
	}
}

func TestSystemdIsNotifiedByTheMaster(t *testing.T) {
	told := manager(t)
	t.Setenv("WATCHDOG_USEC", "90000")
	s := newSystemd()
	s.ready("up")
	if text := told("READY=1"); !strings.Contains(text, "STATUS=up") {
		t.Errorf("ready: %q", text)
	}
	s.reloading()
	if text := told("RELOADING=1"); !strings.Contains(text, "MONOTONIC_USEC=") {
		t.Errorf("reloading: %q", text)
	}
	s.stopping(30 * time.Second)
	if text := told("STOPPING=1"); !strings.Contains(text, "EXTEND_TIMEOUT_USEC=35000000") {
		t.Errorf("stopping: %q", text)
	}
}

// TestAMasterThatHangsSendsNoWatchdogNotification, so that systemd kills it.
func TestAMasterThatHangsSendsNoWatchdogNotification(t *testing.T) {
	told := manager(t)
	t.Setenv("WATCHDOG_USEC", "30000")
	m := &Master{systemd: newSystemd(), slots: map[string][]*slot{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.watchdog(ctx) }()
	told("WATCHDOG=1")
	told("WATCHDOG=1")
	m.mu.Lock() // the part that hangs
	beats := make(chan struct{})
	go func() {
		defer close(beats)
		for range 3 { // notifications in progress, and then none
			told("WATCHDOG=1")
		}
	}()
	select {
	case <-beats:
		t.Error("a master that hangs sends watchdog notifications")
	case <-time.After(300 * time.Millisecond):
	}
	m.mu.Unlock()
	<-beats
	cancel()
	<-done
}

func TestWithoutAManagerNothingIsSent(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	newSystemd().ready("up")
	t.Setenv("NOTIFY_SOCKET", "/nowhere/at/all")
	newSystemd().ready("up")
}
