package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options configure a benchmark.
type Options struct {
	Binary   string       // wakecall's binary, for the installation under test and the helpers
	Version  string       // its version
	Quick    bool         // takes less than a minute, and is less precise
	Runs     int          // runs per median; 0: 3, or 1 with Quick
	Only     []string     // groups to measure; empty: all
	Progress func(string) // called with what is being measured; may be nil
}

// scale sets how long and how much is measured.
type scale struct {
	warmUp, load       time.Duration
	callbacks          int           // jobs for the callback row
	pullJobs           int           // jobs that workers take, 100 per call
	lateMin, lateMax   time.Duration // delays of the lateness rows
	latePush           time.Duration // how long the lateness rows push
	memoryJobs         int
	growth             int // final number of delayed jobs
	mass               int // jobs due in the same second
	topics             int // registered on the idle installation
	manyTopics         int // topics in the group topics
	pageTopics         int // registered on the installation whose pages are measured
	settle, idle       time.Duration
	redisBenchRequests int
}

var (
	fullScale = scale{
		warmUp: 2 * time.Second, load: 5 * time.Second, callbacks: 200_000, pullJobs: 400_000,
		lateMin: time.Second, lateMax: 10 * time.Second, latePush: 20 * time.Second,
		memoryJobs: 1_000_000, growth: 10_000_000, mass: 1_000_000, topics: 1000, manyTopics: 100_000, pageTopics: 5000,
		settle: 20 * time.Second, idle: 30 * time.Second, redisBenchRequests: 300_000,
	}
	quickScale = scale{
		warmUp: 500 * time.Millisecond, load: 1500 * time.Millisecond, callbacks: 30_000, pullJobs: 100_000,
		lateMin: time.Second, lateMax: 2 * time.Second, latePush: 4 * time.Second,
		memoryJobs: 200_000, growth: 300_000, mass: 50_000, topics: 1000, manyTopics: 5000, pageTopics: 1000,
		settle: 11 * time.Second, idle: 10 * time.Second, redisBenchRequests: 50_000,
	}
)

// group is a group of figures that are measured together, on one installation.
type group struct {
	name    string
	about   string
	figures []figure
	// measure does one run and returns a raw value for each figure.
	measure func(ctx context.Context, s *suite) ([]Raw, error)
}

var groups = []group{
	startGroup,
	pushGroup,
	batchGroup,
	durabilityGroup,
	callbackGroup,
	pullGroup,
	lmstfyGroup,
	lateGroup,
	pullLateGroup,
	halfGroup,
	massGroup,
	minuteGroup,
	shardsGroup,
	memoryGroup,
	growthGroup,
	idleGroup,
	pullIdleGroup,
	pagesGroup,
	topicsGroup,
}

// Groups returns the names for Options.Only, with what each group measures.
func Groups() (names, about []string) {
	for _, g := range groups {
		names, about = append(names, g.name), append(about, g.about)
	}
	return names, about
}

// suite is a running benchmark.
type suite struct {
	Options
	scale    scale
	endpoint *helper
	echo     *helper
	pages    []Raw // measured once: filling the installation takes minutes
}

// Run measures and returns the report. It removes everything it created.
func Run(ctx context.Context, opts Options) (report *Report, err error) {
	chosen, err := choose(opts.Only)
	if err != nil {
		return nil, err
	}
	s := &suite{Options: opts, scale: fullScale}
	if opts.Quick {
		s.scale = quickScale
	}
	if s.Runs == 0 {
		s.Runs = 3
		if opts.Quick {
			s.Runs = 1
		}
	}
	if s.Progress == nil {
		s.Progress = func(string) {}
	}
	started := time.Now()
	report = &Report{
		StartedAt: started.UTC().Truncate(time.Second), Version: opts.Version, Quick: opts.Quick, Runs: s.Runs,
		Machine: describeMachine(ctx),
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.startHelpers(ctx); err != nil {
		return nil, err
	}
	if report.Rows, err = s.rows(ctx, chosen); err != nil {
		return nil, err
	}
	report.Seconds = time.Since(started).Seconds()
	return report, nil
}

func choose(only []string) ([]group, error) {
	if len(only) == 0 {
		return groups, nil
	}
	names, _ := Groups()
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no row %q; there are: %s", name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return !slices.Contains(only, g.name) }), nil
}

func (s *suite) startHelpers(ctx context.Context) (err error) {
	if s.endpoint, err = startHelper(ctx, s.Binary, HelperEndpoint); err != nil {
		return err
	}
	s.echo, err = startHelper(ctx, s.Binary, HelperEcho)
	return err
}

func (s *suite) close() error {
	var errs []error
	for _, h := range []*helper{s.endpoint, s.echo} {
		if h != nil {
			errs = append(errs, h.Close())
		}
	}
	return errors.Join(errs...)
}

// rows measures group by group, each s.Runs times.
func (s *suite) rows(ctx context.Context, chosen []group) ([]Row, error) {
	var rows []Row
	for _, g := range chosen {
		raw := make([][]Raw, len(g.figures))
		for run := range s.Runs {
			s.Progress(fmt.Sprintf("%s (%d of %d): %s", g.name, run+1, s.Runs, g.about))
			values, err := g.measure(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("measuring %s: %w", g.name, err)
			}
			for i, v := range values {
				raw[i] = append(raw[i], v)
			}
		}
		for i, f := range g.figures {
			if len(raw[i]) == 0 { // this machine's Redis cannot do it
				continue
			}
			row := f.row(g.name, raw[i])
			if s.Quick && f.fullOnly {
				row.Target = nil
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// on runs f on a fresh installation. env is added to its environment.
func (s *suite) on(ctx context.Context, f func(*installation) error, env ...string) (err error) {
	in, err := startInstallation(ctx, s.Binary, env...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := f(in); err != nil {
		return fmt.Errorf("%w; the installation's log ends with:\n%s", err, in.logTail())
	}
	return nil
}
