package bench

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/wakecall/wakecall/test/harness"
)

var (
	quick = flag.Bool("quick", false, "measure for seconds only, and less precisely")
	only  = flag.String("only", "", "measure only these experiments, separated by commas")
	due   = flag.Int("due", 0, "jobs due at a rate of a million a minute (default 1,000,000; 50,000 with -quick)")
	many  = flag.Int("topics", 0, "topics of an installation with many (default 100,000; 5,000 with -quick)")
	runs  = flag.Int("runs", 0, "median of this number of runs (default 3; 1 with -quick)")
)

// experiments in the order of the table.
var experiments = []struct {
	name    string
	measure func(*bench)
}{
	{"start", start}, {"push", push}, {"batch", batch}, {"callbacks", callbacks}, {"pull", pull},
	{"lateness", lateness}, {"idle", idle}, {"memory", memory}, {"growth", growth}, {"topics", topics}, {"mass", mass},
	{"minute", minute}, {"redis", redisTime}, {"gateway", gateway}, {"beanstalkd", beanstalkd},
	{"waiting", waiting}, {"capacity", capacity},
}

// scale says how long and how much is measured.
type scale struct {
	warmUp, load time.Duration
	callbacks    int           // jobs that are called
	pull         int           // jobs that workers take, 100 per request
	lateMax      time.Duration // largest delay of the jobs whose lateness is measured
	late         time.Duration // how long they are pushed
	alone        int           // jobs that meet no other job
	memory       int           // delayed jobs
	growth       int           // delayed jobs of a large installation
	due          int           // jobs due at once, or at a rate of a million a minute
	topics       int           // of an installation with many
	settle, idle time.Duration
	zadd         int // requests of redis-benchmark
}

var (
	fullScale = scale{
		warmUp: 2 * time.Second, load: 5 * time.Second, callbacks: 200_000, pull: 400_000, lateMax: 10 * time.Second,
		late: 20 * time.Second, alone: 4000, memory: 1_000_000, growth: 10_000_000, due: 1_000_000, topics: 100_000,
		settle: 20 * time.Second, idle: 30 * time.Second, zadd: 1_200_000,
	}
	quickScale = scale{
		warmUp: 500 * time.Millisecond, load: 1500 * time.Millisecond, callbacks: 30_000, pull: 100_000,
		lateMax: 2 * time.Second, late: 4 * time.Second, alone: 800, memory: 200_000, growth: 300_000, due: 50_000,
		topics: 5000, settle: 11 * time.Second, idle: 10 * time.Second, zadd: 200_000,
	}
)

// bench is a run of one experiment.
type bench struct {
	*testing.T
	scale
	table *table
}

// TestMain runs the endpoint if this process is that.
func TestMain(m *testing.M) {
	if addr := os.Getenv(endpointEnv); addr != "" {
		serveEndpoint(addr)
	}
	os.Exit(m.Run())
}

func TestBench(t *testing.T) {
	if os.Getenv("WAKECALL_BENCH") == "" {
		t.Skip("make bench runs it")
	}
	size, times, results := fullScale, 3, &table{}
	if *quick {
		size, times = quickScale, 1
	}
	size.due, size.topics = cmp.Or(*due, size.due), cmp.Or(*many, size.topics)
	if *runs > 0 {
		times = *runs
	}
	names := strings.Split(*only, ",")
	for _, e := range experiments {
		if *only != "" && !slices.Contains(names, e.name) {
			continue
		}
		for range times {
			if !t.Run(e.name, func(t *testing.T) { e.measure(&bench{t, size, results}) }) {
				return
			}
		}
	}
	if len(results.rows) == 0 {
		t.Fatalf("no experiment has the name %s", *only)
	}
	fmt.Printf("\n%s; median of %d, quick: %t\n\n%s\n", machine(t), times, *quick, results)
}

// machine describes what was measured, and where.
func machine(t *testing.T) string {
	version, err := exec.Command(harness.Binary(t), "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	redis, _ := exec.Command("redis-server", "--version").Output()
	_, redisVersion, _ := strings.Cut(string(redis), "v=")
	redisVersion, _, _ = strings.Cut(redisVersion, " ")
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	_, model, _ := strings.Cut(string(cpus), "model name\t: ")
	model, _, _ = strings.Cut(model, "\n")
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%s on %d × %s, %s, Redis %s, load average at the end %.4s",
		strings.TrimSpace(string(version)), runtime.NumCPU(), model, runtime.Version(), redisVersion, load)
}

// table has the figures of all experiments.
type table struct{ rows []*row }

// row is one figure, with a value for each run.
type row struct {
	what, unit, target, limit string
	values, limits            []float64
}

// figure records a value.
func (b *bench) figure(what, unit, target string, value float64) {
	b.beside(what, unit, target, value, "", 0)
}

// beside records a value, and what the machine does without Wakecall.
func (b *bench) beside(what, unit, target string, value float64, limit string, without float64) {
	b.Logf("%s: %s %s; %s %s", what, amount(value), unit, limit, amount(without))
	i := slices.IndexFunc(b.table.rows, func(r *row) bool { return r.what == what })
	if i < 0 {
		i = len(b.table.rows)
		b.table.rows = append(b.table.rows, &row{what: what, unit: unit, target: target, limit: limit})
	}
	r := b.table.rows[i]
	r.values, r.limits = append(r.values, value), append(r.limits, without)
}

// String returns the table in Markdown.
func (t *table) String() string {
	var text strings.Builder
	text.WriteString("| what | target | Wakecall | without it | ratio |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range t.rows {
		without, ratio := "", ""
		if r.limit != "" {
			var ratios []float64
			for i, v := range r.values {
				ratios = append(ratios, v/r.limits[i])
			}
			without, ratio = r.limit+": "+amount(median(r.limits))+" "+r.unit, fmt.Sprintf("%.2f", median(ratios))
		}
		value := amount(median(r.values)) + " " + r.unit
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", r.what, r.target, value, without, ratio)
	}
	return text.String()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// amount writes a number with three significant digits or more.
func amount(v float64) string {
	digits := 0
	if v != math.Trunc(v) {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	return message.NewPrinter(language.English).Sprintf("%.*f", min(digits, 4), v)
}

func TestTableShowsMedians(t *testing.T) {
	b := &bench{t, quickScale, &table{}}
	for _, v := range []float64{1000, 3000, 2000} {
		b.beside("pushes", "/s", "≥ 0.5", v, "bare server", 4000)
	}
	b.figure("start", "ms", "", 0.123456)
	want := "| pushes | ≥ 0.5 | 2,000 /s | bare server: 4,000 /s | 0.50 |\n| start |  | 0.123 ms |  |  |\n"
	if got := b.table.String(); !strings.HasSuffix(got, want) {
		t.Errorf("the table is\n%s, want at its end\n%s", got, want)
	}
}
