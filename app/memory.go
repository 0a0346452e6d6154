package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/beat"
)

// tuneMemory lets the garbage collector rest longer than Go would: a process holds a few megabytes and allocates much a second, and
// measured over pushes and callbacks this takes a tenth of the processor time. The limit ends the generosity where memory is really
// used: by a redis-checker that compares a million jobs of the journal with a shard, its program beside it. GOGC and GOMEMLIMIT say otherwise.
func tuneMemory(process string) {
	const percent = 400
	limit := int64(1 << 30)
	if process == RoleChecker {
		limit = 208 << 20
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

const (
	restLook  = 2 * time.Second // between two looks at what was allocated
	restLooks = 3               // in a row that found a process at rest
	restLong  = 5 * restLook    // between two looks at a process that is at rest already
	restBelow = 512 << 10       // allocated between two looks of a process at rest
	restWorth = 3 << 20         // allocated since memory was given back last: below that it is not worth a collection
)

// rest says when a process has come to rest and has memory to give back.
type rest struct {
	last, given uint64 // allocated in all, at the last look and when memory was given back
	calm        int    // looks in a row
}

// look takes what was allocated in all, some time after the last look.
func (r *rest) look(allocated uint64, after time.Duration) bool {
	calm := allocated-r.last < restBelow*uint64(after/restLook)
	r.last = allocated
	if !calm {
		r.calm = 0
		return false
	}
	if r.calm++; r.calm < restLooks || allocated-r.given < restWorth {
		return false
	}
	r.given = allocated
	return true
}

// returnMemory gives memory back to the system whenever the process has come to rest: the garbage collector's percentage lets a process that start-up or
// a busy hour has filled keep several times what it needs. A busy process is left alone.
func returnMemory(ctx context.Context) error { return atRest(ctx, func(bool) {}) }

// returnAll does the same for a process that does one thing after the other, and at rest makes do with one processor: a second one is woken for
// nothing each time something is looked at. GOMAXPROCS says otherwise.
func returnAll(ctx context.Context) error {
	if os.Getenv("GOMAXPROCS") != "" {
		return returnMemory(ctx)
	}
	return atRest(ctx, func(resting bool) {
		if resting {
			runtime.GOMAXPROCS(1)
		} else {
			runtime.SetDefaultGOMAXPROCS()
		}
	})
}

// atRestOf is how a process rests.
func atRestOf(process string) func(context.Context) error {
	if strings.HasPrefix(process, RoleTimer) || process == RoleChecker || process == RoleAdmin {
		return returnAll
	}
	return returnMemory
}

// atRest gives memory back, and says when the process has come to rest and when that is over.
func atRest(ctx context.Context, told func(resting bool)) error {
	r := rest{}
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	for resting := false; ; {
		wait := restLook
		if resting {
			wait = restLong
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(beat.In(wait)):
		}
		metrics.Read(sample)
		if r.look(sample[0].Value.Uint64(), wait) {
			debug.FreeOSMemory()
			mapProgram(syscall.MADV_NOHUGEPAGE)
		}
		if now := r.calm >= restLooks; now != resting {
			if resting = now; !resting {
				mapProgram(syscall.MADV_HUGEPAGE)
			}
			told(resting)
		}
	}
}

// mapProgram lets go of the pages of the program itself, and has them mapped anew as advised. Start-up maps most of them, and work at rest needs few. They
// are the file's and shared by all processes of Wakecall: those needed again come from the system's cache. Where that has them in huge pages, each that is
// touched counts for two megabytes, which serves only a busy process.
func mapProgram(advice uintptr) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	program, err := os.Executable()
	if err != nil {
		return
	}
	for _, m := range unchanged(f, program) { // nothing is lost if it cannot be done
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, advice)
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
	}
}

type mapping struct{ from, to uintptr }

// unchanged are the mappings of a file, in the text of /proc/self/smaps, that cannot be written to and of which no page differs from the file: only those
// may be let go.
func unchanged(smaps io.Reader, file string) (list []mapping) {
	var m mapping
	mine := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) >= 5 && !strings.HasSuffix(f[0], ":"):
			n, err := fmt.Sscanf(f[0], "%x-%x", &m.from, &m.to)
			mine = n == 2 && err == nil && f[len(f)-1] == file && (f[1] == "r-xp" || f[1] == "r--p")
		case mine && len(f) == 3 && f[0] == "Anonymous:" && f[1] == "0":
			list = append(list, m)
		}
	}
	return list
}

// both runs two parts of a role until ctx is done, or until one of them fails.
func both(a, b func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		first := make(chan error, 1)
		go func() {
			defer cancel()
			first <- a(ctx)
		}()
		err := b(ctx)
		cancel()
		if firstErr := <-first; firstErr != nil {
			return firstErr
		}
		return err
	}
}
