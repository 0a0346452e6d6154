package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// reapEvery is much longer than an ended process stays a zombie when this program has started it, and waits for it.
const reapEvery = 5 * time.Second

// reap removes, until stop is called, the zombies among this process's children that nobody waits for. Process 1 of a
// container inherits them, such as those of a command of `wakecall work` that has ended before them.
func reap(every time.Duration) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		var before []int
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			now := zombies()
			for _, pid := range now {
				if slices.Contains(before, pid) {
					_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // an error: it was waited for
				}
			}
			before = now
		}
	}()
	return func() { close(done); <-ended }
}

// zombies returns the ended children of this process that were not waited for.
func zombies() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // no error: the pattern is valid
	for _, file := range files {
		stat, _ := os.ReadFile(file) // an error: it has ended
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[0]) != "Z" || string(fields[1]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		pids = append(pids, pid)
	}
	return pids
}
