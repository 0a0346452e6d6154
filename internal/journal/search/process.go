package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/journal"
)

// A journal is read by a process of its own, with the lowest priority and a limit of its memory, so that pushes and
// calls do not wait for it. A thread with a low priority would delay the garbage collection of the whole process.
const (
	processName = "wakecall: search" // as its argv[0], which makes a program that process
	lowest      = 19                 // nice(2)
	memoryAim   = 128 << 20          // the garbage collector works harder
	memoryLimit = 512 << 20          // the process ends
	turnEvery   = 100 * time.Millisecond
)

// job is what the process reads.
type job struct {
	Dir string
	Query
}

// init makes a process that search has started do its work: every program with this package can be that process.
func init() {
	if os.Args[0] != processName {
		return
	}
	if err := process(os.Stdin, os.Stdout); err != nil {
		os.Exit(1) // nobody reads the answer
	}
	os.Exit(0)
}

func process(in io.Reader, w io.Writer) error {
	// The threads of a process have priorities of their own; those of its group are all set.
	_ = syscall.Setpriority(syscall.PRIO_PGRP, 0, lowest)
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: memoryLimit, Max: memoryLimit})
	runtime.GOMAXPROCS(1)
	debug.SetMemoryLimit(memoryAim)
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return err
	}
	return j.answer(json.NewEncoder(w).Encode)
}

// answer searches the journal, and writes lines. Its limits count what the query selects, so that events of others
// leave it no fewer. Each line that cleared a topic is about all ids; such lines have a limit of their own.
func (j job) answer(write func(any) error) error {
	last, told := journal.Progress{}, time.Time{}
	events, clears, bodies := 0, 0, 0
	end := line{Done: true, Progress: &last}
	wanted := journal.Wanted{ID: j.ID, Group: j.Group}
	err := journal.Search(context.Background(), j.Dir, wanted, func(p journal.Progress) {
		if last = p; time.Since(told) >= tellEvery {
			told = time.Now()
			_ = write(line{Progress: &p}) // SIGPIPE ends a process whose parent has ended
		}
	}, func(f journal.Found) {
		e := eventOf(f)
		if j.Group == "" && !j.selects(e.Topic) { // a cancellation names patterns of topics
			return
		}
		count := &events
		if e.ID == "" {
			count = &clears
		}
		if *count++; *count > maxEvents {
			end.Cut = true
			return
		}
		if bodies += len(e.Body); bodies > maxBodies {
			e.Body = nil
		}
		_ = write(line{Event: &e})
	})
	if err != nil {
		end.Error = err.Error()
	}
	return write(end)
}

// own searches this host's journal, and tells the lines of the process. Searches of one host take turns.
func (s *Searcher) own(ctx context.Context, q Query, tell func(line)) error {
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > maxWaiting {
		return ErrBusy
	}
	turn, err := s.turn(ctx, tell)
	if err != nil {
		return fmt.Errorf("wait for other searches: %w", err)
	}
	defer turn.Close()
	in, err := json.Marshal(job{s.Dir, q})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Env = []string{processName}, []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the search: %w", err)
	}
	err = readAnswer(out, nil, tell)
	stopped := ctx.Err() != nil
	cancel()
	if ended := cmd.Wait(); errors.Is(err, errCutOff) && !stopped {
		err = fmt.Errorf("the search ended: %w", ended)
	}
	return err
}

// turn waits until no other search of this host is under way, those of other processes included. It pauses before the
// first try, too, so that a client that searches all the time is not ahead of those that wait.
func (s *Searcher) turn(ctx context.Context, tell func(line)) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.Dir, ".search.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		tell(line{Progress: &journal.Progress{}})
		select {
		case <-time.After(turnEvery):
			err = disk.Flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		case <-ctx.Done():
			err = ctx.Err()
		}
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			f.Close()
			return nil, err
		}
	}
}
