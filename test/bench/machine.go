package bench

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// Machine is where a benchmark ran.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory"` // bytes
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Redis  string `json:"redis"`
	// LoadBefore is the load average of the last minute: above zero, something else was running.
	LoadBefore float64 `json:"load_before"`
}

func describeMachine(ctx context.Context) Machine {
	m := Machine{
		CPU: procValue("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(),
		Kernel: strings.TrimSpace(readText("/proc/sys/kernel/osrelease")), Go: runtime.Version(), Redis: redisVersion(ctx),
	}
	kib, _, _ := strings.Cut(procValue("/proc/meminfo", "MemTotal"), " ")
	if n, err := strconv.ParseInt(kib, 10, 64); err == nil {
		m.Memory = n << 10
	}
	load, _, _ := strings.Cut(readText("/proc/loadavg"), " ")
	m.LoadBefore, _ = strconv.ParseFloat(load, 64)
	return m
}

// procValue is the first "key : value" of a file in /proc, or nothing.
func procValue(file, key string) string {
	for line := range strings.Lines(readText(file)) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func readText(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(b)
}

// redisVersion is what redis-server on the PATH says, as "7.0.15".
func redisVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "redis-server", "--version").Output()
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(out), "v=")
	version, _, _ := strings.Cut(rest, " ")
	return version
}
