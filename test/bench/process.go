package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// helper is a running bench-helper.
type helper struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

func startHelper(ctx context.Context, binary, name string) (*helper, error) {
	cmd := exec.CommandContext(ctx, binary, "bench-helper", name)
	cmd.Stderr = os.Stderr
	// A group of its own: an interrupt at the terminal reaches it through this process, in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the helper %s: %w", name, err)
	}
	h := &helper{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the helper %s did not start: %w", name, err), h.Close())
	}
	h.addr = strings.TrimSpace(line)
	return h, nil
}

// Close ends the helper and waits for it.
func (h *helper) Close() error {
	return errors.Join(h.stdin.Close(), h.cmd.Wait())
}

// url of a path of the helper.
func (h *helper) url(path string) string { return "http://" + h.addr + path }

func (h *helper) reset(ctx context.Context) error {
	return h.call(ctx, http.MethodPost, "/reset", nil)
}

// seen asks the endpoint what it got; all of it, or only the count.
func (h *helper) seen(ctx context.Context, all bool) (seenAnswer, error) {
	path := "/seen"
	if all {
		path += "?all"
	}
	var answer seenAnswer
	err := h.call(ctx, http.MethodGet, path, &answer)
	return answer, err
}

func (h *helper) call(ctx context.Context, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, h.url(path), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking the endpoint: %w", err)
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// until asks again and again until done returns true.
func until(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// treeCPU is the processor time that a process and its descendants have used so far.
func treeCPU(pid int) (total time.Duration, err error) {
	each, err := cpuByProcess(pid)
	for _, cpu := range each {
		total += cpu
	}
	return total, err
}

func cpuByProcess(pid int) (map[int]time.Duration, error) {
	stats, err := readStats()
	if err != nil {
		return nil, err
	}
	each := map[int]time.Duration{}
	for p := range tree(stats, pid) {
		cpu, ok := exactCPU(p)
		if !ok {
			cpu = stats[p].cpu
		}
		each[p] = cpu
	}
	return each, nil
}

// exactCPU is what the threads of a process have used, to the nanosecond: what an idle one does within half a minute is
// a few of the ticks that its stat counts in. Not ok where the system keeps no such account.
func exactCPU(pid int) (total time.Duration, ok bool) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, false
	}
	for _, name := range threads {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		used, _, _ := strings.Cut(string(b), " ")
		ns, err := strconv.ParseInt(used, 10, 64)
		if err != nil {
			return 0, false
		}
		total += time.Duration(ns)
	}
	return total, total > 0
}

// processTitle is how a process calls itself: "wakecall: timer 1", or else the name of its program.
func processTitle(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "", fmt.Errorf("reading the title of a process: %w", err)
	}
	title := strings.TrimRight(strings.ReplaceAll(string(b), "\x00", " "), " ")
	if own, ok := strings.CutPrefix(title, "wakecall: "); ok {
		return own, nil
	}
	name, _, _ := strings.Cut(title, " ")
	if name = filepath.Base(name); name == "wakecall" {
		return "master", nil
	}
	return name, nil
}

// residentOf are the MiB that a process keeps in memory, and the same with what it shares divided among those that
// share it.
func residentOf(pid int) (rss, pss float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the memory of a process: %w", err)
	}
	return kilobytes(string(b), "Rss:") / 1024, kilobytes(string(b), "Pss:") / 1024, nil
}

// kilobytes is the number in a line like "Rss:   28640 kB".
func kilobytes(text, name string) float64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			n, _ := strconv.ParseFloat(f[1], 64)
			return n
		}
	}
	return 0
}

// tree is a process and its descendants.
func tree(stats map[int]processStat, pid int) map[int]bool {
	children := map[int][]int{}
	for p, s := range stats {
		children[s.parent] = append(children[s.parent], p)
	}
	within := map[int]bool{}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		within[queue[0]] = true
		queue = append(queue, children[queue[0]]...)
	}
	return within
}

type processStat struct {
	name   string
	parent int
	cpu    time.Duration
	memory int64 // resident, in bytes
}

// clockTick is USER_HZ, which Linux fixes at 100 for everybody.
const clockTick = 10 * time.Millisecond

func readStats() (map[int]processStat, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	stats := map[int]processStat{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		if s, ok := parseStat(string(b)); ok {
			stats[pid] = s
		}
	}
	return stats, nil
}

// parseStat reads "pid (name) state ppid … utime stime … rss …"; the name may hold anything.
func parseStat(line string) (processStat, bool) {
	end := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[end+1:])
	if len(fields) < 22 {
		return processStat{}, false
	}
	_, name, _ := strings.Cut(line[:end], "(")
	var n [4]int
	for i, at := range []int{1, 11, 12, 21} {
		v, err := strconv.Atoi(fields[at])
		if err != nil {
			return processStat{}, false
		}
		n[i] = v
	}
	return processStat{
		name:   name,
		parent: n[0],
		cpu:    time.Duration(n[1]+n[2]) * clockTick,
		memory: int64(n[3] * os.Getpagesize()),
	}, true
}
