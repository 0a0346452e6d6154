package harness

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// clockSource moves the wall clock of a program that gets it from libc, as redis-server does (a Go program does not),
// by the number of seconds in a file.
const clockSource = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *offset;

__attribute__((constructor)) static void start(void) {
	const char *file = getenv("TEST_CLOCK_FILE");
	int fd = file ? open(file, O_RDONLY) : -1;
	if (fd < 0) return;
	void *p = mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED) offset = p;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	static int (*real)(struct timeval *, void *);
	if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
	int err = real(tv, zone);
	if (tv && offset) tv->tv_sec += *offset;
	return err;
}

int clock_gettime(clockid_t clock, struct timespec *ts) {
	static int (*real)(clockid_t, struct timespec *);
	if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
	int err = real(clock, ts);
	if (clock == CLOCK_REALTIME && offset) ts->tv_sec += *offset;
	return err;
}

time_t time(time_t *to) {
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (to) *to = ts.tv_sec;
	return ts.tv_sec;
}
`

// Clock is a wall clock that can be set, for the redis-servers that are started with it.
type Clock struct {
	t       testing.TB
	library string
	file    string
}

var clockLibrary = sync.OnceValues(func() (string, error) {
	dir, err := root()
	if err != nil {
		return "", err
	}
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, []byte(clockSource), 0o600); err != nil {
		return "", err
	}
	_, err = exec.Command("gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl").Output()
	return library, err
})

// NewClock returns a clock that shows the correct time.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	need(t, "gcc", "gcc libc6-dev")
	library, err := clockLibrary()
	if err != nil {
		t.Fatalf("compiling the clock: %v", err)
	}
	c := &Clock{t: t, library: library, file: filepath.Join(newDir(t, "clock"), "offset")}
	c.Set(0)
	return c
}

// Set sets the clock ahead of this machine's, or behind it, in whole seconds.
func (c *Clock) Set(ahead time.Duration) {
	c.t.Helper()
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600) // the file is mapped, so it must not be replaced
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(ahead/time.Second))), 0); err != nil {
		c.t.Fatal(err)
	}
}

func (c *Clock) environment() []string {
	return append(os.Environ(), "LD_PRELOAD="+c.library, "TEST_CLOCK_FILE="+c.file)
}
