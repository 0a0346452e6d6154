package conf

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestAClosedWorkingDirectoryHasNoFile: `sudo -u wakecall wakecall check` in a home directory that only its owner may
// enter reads the next standard file. A file that exists, but may not be read, is an error.
func TestAClosedWorkingDirectoryHasNoFile(t *testing.T) {
	closed, unreadable := write(t, "timers: 2\n"), write(t, "timers: 3\n")
	for path, mode := range map[string]os.FileMode{
		filepath.Dir(filepath.Dir(closed)): 0o755, filepath.Dir(closed): 0, unreadable: 0,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Dir(closed), 0o700) }) // so that it can be removed
	asNobody(func() {
		if c, err := Load(LoadOptions{Search: []string{closed}}); err != nil || c.File() != "" {
			t.Errorf("a directory that may not be entered: %v", err)
		}
		if _, err := Load(LoadOptions{Search: []string{unreadable}}); err == nil {
			t.Error("a file that may not be read was left out")
		}
	})
}

// asNobody runs do with the access to files of an ordinary user, also if the tests run as root.
func asNobody(do func()) {
	if os.Geteuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer setFileUser(0)
		setFileUser(65534)
	}
	do()
}

// setFileUser is for the calling thread alone.
func setFileUser(id uintptr) {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, id, 0, 0); errno != 0 {
		panic(errno)
	}
}
