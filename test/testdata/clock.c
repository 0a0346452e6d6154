// Moves the wall clock of a program that gets it from libc, as redis-server does (a Go program does not), by the number
// of seconds in a file.
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
