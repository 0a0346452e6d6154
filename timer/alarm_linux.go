package timer

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// kernelAlarm uses a timerfd. An idle Go process waits for its timers in epoll_wait, whose millisecond resolution makes
// them half a millisecond late on average.
func kernelAlarm() (alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return alarm{}, os.NewSyscallError("timerfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "timerfd")
	rings := make(chan time.Time, 1)
	var reader sync.WaitGroup
	reader.Go(func() {
		var count [8]byte
		for {
			if _, err := f.Read(count[:]); err != nil {
				return // closed
			}
			select {
			case rings <- time.Now():
			default:
			}
		}
	})
	set := func(d time.Duration) {
		// This fails only for an invalid descriptor or value. Zero would stop the timer.
		_ = unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, d.Nanoseconds()))}, nil)
	}
	set(0)
	stop := func() {
		_ = f.Close()
		reader.Wait()
	}
	return alarm{rings: rings, set: set, stop: stop}, nil
}
