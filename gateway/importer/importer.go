package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Source is a system to import from.
type Source interface {
	// Lock returns ErrLocked while another import from this system runs. It reconnects if the connection was lost.
	Lock(ctx context.Context) error
	// Topics returns the topics to register.
	Topics(ctx context.Context) ([]registry.Topic, error)
	// Waiting returns the number of waiting jobs.
	Waiting(ctx context.Context) (int, error)
	// Claim claims at most n jobs of the registered topics. It returns none if no such job is waiting.
	Claim(ctx context.Context, n int) ([]Job, error)
	// Left returns the claims that earlier imports, or this one before an error, left behind.
	Left(ctx context.Context) ([]Job, error)
	// Drop removes the claims of jobs, all claimed together.
	Drop(ctx context.Context, jobs []Job) error
}

// Preparer is implemented by a Source that imports more than topics and jobs.
type Preparer interface {
	// Prepare imports tokens and the like, or only counts them if o.DryRun is set.
	Prepare(ctx context.Context, o *Options, r *Report) error
}

// Counter is implemented by a Source whose number of waiting jobs includes some that Claim would not return.
type Counter interface {
	// Count returns how many jobs an import would claim now, and those that one has claimed. It changes nothing.
	Count(ctx context.Context) (int, error)
}

// DeadCounter is implemented by a Source that has dead jobs, which are not imported.
type DeadCounter interface {
	Dead(ctx context.Context) (int, error)
}

// CountStep is how many entries one call of a script counts.
const CountStep = step

// Job is a claimed job.
type Job struct {
	Push    store.Push // Via names the claim
	Added   time.Time  // when the old system accepted it
	Key     any        // key of its claim, for the Source
	Claimed time.Time  // when it was claimed, if an earlier import did so
}

// Registry is the part of the registry that an import needs.
type Registry interface {
	Snapshot() *registry.Snapshot
	PutTopic(
		ctx context.Context, actor string, t registry.Topic, conditions ...registry.Condition,
	) (created bool, err error)
	EditSetting(ctx context.Context, actor, name string, value any, edit func() error) error
}

// Jobs is the part of the queue that an import needs.
type Jobs interface {
	PushBatch(ctx context.Context, pushes []store.Push) []store.Result
	Find(ctx context.Context, refs []store.Ref) ([]*store.Job, error)
}

// Options configure an import.
type Options struct {
	Source   Source
	Registry Registry
	Jobs     Jobs
	Journal  string // directory of the journal
	DryRun   bool   // only count
	// Follow: continue until ctx is done, while producers still use the old system. An error after the beginning is
	// logged, and the import continues when the systems answer again.
	Follow   bool
	Progress func(Report)
	Logger   *slog.Logger
}

// Report counts what an import has done.
type Report struct {
	Topics   int `json:"topics"`            // topics of the old system
	Made     int `json:"topics_registered"` // registered topics; existing ones are kept
	Tokens   int `json:"tokens,omitempty"`  // of lmstfy
	Tubes    int `json:"tubes,omitempty"`   // of Grape
	Queues   int `json:"queues,omitempty"`  // of lmstfy, with ready jobs at the start
	Waiting  int `json:"waiting"`           // jobs at the start; of a dry run: those that would be imported
	Imported int `json:"imported"`
	Resumed  int `json:"resumed"` // claimed jobs that were found after an interruption
	Kept     int `json:"kept"`    // jobs skipped because Wakecall has a newer job with the id
	Refused  int `json:"refused"` // jobs whose claims stay; the log has the reasons
	Left     int `json:"left"`    // jobs left in the old system at the end, for example held by its consumers
	Dead     int `json:"dead"`    // dead jobs, which stay in the old system
}

const (
	step       = 500 // jobs per claim
	followEach = time.Second
	retryFirst = time.Second // wait after an error; doubled after each further one
	retryMost  = 30 * time.Second
	actor      = "import"
)

// Run imports until no job is waiting in the old system or, with Follow, until ctx is done.
func Run(ctx context.Context, o Options) (Report, error) {
	i := &run{Options: o}
	if err := i.begin(ctx); err != nil || o.DryRun {
		return i.Report, err
	}
	err := i.move(ctx)
	if o.Follow {
		err = i.retry(ctx, err)
		ctx = context.WithoutCancel(ctx)
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return i.Report, err
	}
	return i.end(ctx)
}

// begin counts topics and jobs. Unless it is a dry run, it locks the old system and registers the topics.
func (i *run) begin(ctx context.Context) (err error) {
	if !i.DryRun {
		if err := i.Source.Lock(ctx); err != nil {
			return err
		}
	}
	if err := i.prepare(ctx); err != nil {
		return err
	}
	if err := i.topics(ctx); err != nil {
		return err
	}
	if err := i.countDead(ctx); err != nil {
		return err
	}
	if c, ok := i.Source.(Counter); ok && i.DryRun {
		i.Waiting, err = c.Count(ctx)
		return err
	}
	i.Waiting, err = i.Source.Waiting(ctx)
	return err
}

func (i *run) prepare(ctx context.Context) error {
	if p, ok := i.Source.(Preparer); ok {
		return p.Prepare(ctx, &i.Options, &i.Report)
	}
	return nil
}

// move imports the claims that are left, and then all waiting jobs. With Follow it continues until ctx is done.
func (i *run) move(ctx context.Context) error {
	if err := i.resume(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		jobs, err := i.Source.Claim(ctx, step)
		switch {
		case err != nil && ctx.Err() != nil: // the next import finds what this one has claimed
		case err != nil:
			return err
		case len(jobs) > 0:
			if err := i.push(ctx, jobs); err != nil {
				return err
			}
			i.Progress(i.Report)
		case !i.Follow:
			return nil
		default:
			pause.For(ctx, followEach)
		}
	}
	return nil
}

// retry continues after errors of either system until ctx is done. It returns the last error if the import did not
// recover from it.
func (i *run) retry(ctx context.Context, err error) error {
	for wait := retryFirst; err != nil; {
		i.Logger.Warn("import interrupted; retrying", "error", err, "retry_in", wait)
		if !pause.For(ctx, wait) {
			return err
		}
		before := i.Imported
		err = i.again(ctx)
		if wait = min(2*wait, retryMost); i.Imported > before {
			wait = retryFirst
		}
	}
	return nil
}

// again is like Run, but with the topics already registered.
func (i *run) again(ctx context.Context) error {
	if err := i.Source.Lock(ctx); err != nil {
		return err
	}
	if err := i.prepare(ctx); err != nil {
		return err
	}
	return i.move(ctx)
}

func (i *run) end(ctx context.Context) (_ Report, err error) {
	if i.Left, err = i.Source.Waiting(ctx); err != nil {
		return i.Report, err
	}
	err = i.countDead(ctx)
	return i.Report, err
}

func (i *run) countDead(ctx context.Context) (err error) {
	if c, ok := i.Source.(DeadCounter); ok {
		i.Dead, err = c.Dead(ctx)
	}
	return err
}

type run struct {
	Options
	Report
}

// topics registers the topics that do not exist yet.
func (i *run) topics(ctx context.Context) error {
	topics, err := i.Source.Topics(ctx)
	if err != nil {
		return err
	}
	i.Topics = len(topics)
	if err := valid(topics); err != nil {
		return err
	}
	for _, t := range topics {
		if i.Registry.Snapshot().Topics.Get(t.Name) != nil {
			continue
		}
		i.Made++
		if i.DryRun {
			continue
		}
		if _, err := i.Registry.PutTopic(ctx, actor, t); err != nil {
			return fmt.Errorf("register topic %s: %w", t.Name, err)
		}
	}
	return nil
}

// valid returns an error that lists all topics that cannot be registered.
func valid(topics []registry.Topic) error {
	var errs []error
	for _, t := range topics {
		if err := t.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("topic %s cannot be registered: %w", t.Name, err))
		}
	}
	return errors.Join(errs...)
}

// resume pushes the jobs that an interrupted import claimed but did not push.
func (i *run) resume(ctx context.Context) error {
	left, err := i.Source.Left(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	i.Resumed, i.Refused = i.Resumed+len(left), 0 // left includes the claims of refused jobs
	done, todo, err := i.unpushed(ctx, left)
	if err != nil {
		return err
	}
	for _, jobs := range byClaim(done) {
		if err := i.Source.Drop(ctx, jobs); err != nil {
			return err
		}
	}
	for _, jobs := range byClaim(todo) {
		if err := i.push(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

func byClaim(jobs []Job) map[string][]Job {
	claims := map[string][]Job{}
	for _, job := range jobs {
		claims[job.Push.Via] = append(claims[job.Push.Via], job)
	}
	return claims
}

// noted is how long a dispatcher may take to journal the last attempt of a job that has ended.
const noted = 3 * time.Second

// unpushed separates the claims that an interrupted import has already pushed from the others. A job was pushed if the
// journal says so. It was also pushed if the import was killed between storing and journaling it: then it exists, or
// has been called since.
func (i *run) unpushed(ctx context.Context, left []Job) (done, todo []Job, err error) {
	pushed := i.linesOf(left)
	var unsure []Job
	var refs []store.Ref
	for _, job := range left {
		if pushed[line{job.Push.Via, job.ref()}] {
			done = append(done, job)
			continue
		}
		unsure, refs = append(unsure, job), append(refs, job.ref())
	}
	if len(unsure) == 0 {
		return done, nil, nil
	}
	stored, err := store.Live(i.Jobs.Find(ctx, refs))
	if err != nil {
		return nil, nil, fmt.Errorf("look up jobs of an interrupted import: %w", err)
	}
	pause.For(ctx, noted)
	called := i.calls(refs)
	for k, job := range unsure {
		created, was := called[job.ref()]
		if stored[k] != nil {
			created, was = stored[k].CreatedAt, true
		}
		if was && !created.Before(job.Claimed) {
			done = append(done, job)
			continue
		}
		todo = append(todo, job)
	}
	return done, todo, ctx.Err()
}

type line struct {
	via string
	store.Ref
}

func (j *Job) ref() store.Ref { return store.Ref{Topic: j.Push.Topic, ID: j.Push.ID} }

// linesOf reports which claims have a record in the journal.
func (i *run) linesOf(left []Job) map[line]bool {
	lines := map[line]bool{}
	for _, job := range left {
		lines[line{job.Push.Via, job.ref()}] = false
	}
	for l, err := range journal.ReadRequests(i.Journal, journal.Range{}) {
		i.unreadable(err)
		if key := (line{l.Via, store.Ref{Topic: l.Topic, ID: l.ID}}); err == nil {
			if _, ours := lines[key]; ours {
				lines[key] = true
			}
		}
	}
	return lines
}

// calls returns the jobs that were called according to the journal, each with the creation time of the latest job with
// its id.
func (i *run) calls(refs []store.Ref) map[store.Ref]time.Time {
	ours, called := map[store.Ref]bool{}, map[store.Ref]time.Time{}
	for _, ref := range refs {
		ours[ref] = true
	}
	for l, err := range journal.ReadAttempts(i.Journal, journal.Range{}) {
		i.unreadable(err)
		if ref := (store.Ref{Topic: l.Topic, ID: l.ID}); err == nil && ours[ref] && l.CreatedAt.After(called[ref]) {
			called[ref] = l.CreatedAt
		}
	}
	return called
}

func (i *run) unreadable(err error) {
	if err != nil {
		i.Logger.Warn("read journal line", "error", err)
	}
}

// push pushes the jobs of one claim and drops their claims.
func (i *run) push(ctx context.Context, jobs []Job) error {
	jobs = slices.DeleteFunc(jobs, func(job Job) bool {
		err := store.CheckID(job.Push.ID)
		if err != nil {
			i.refused(job, fmt.Errorf("invalid id: %w", err), nil)
		}
		return err != nil
	})
	if len(jobs) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // a claim must be completed
	imported, kept, err := i.store(ctx, jobs)
	if dropErr := i.Source.Drop(ctx, append(imported, kept...)); dropErr != nil {
		return fmt.Errorf("drop claims: %w", dropErr)
	}
	i.Imported, i.Kept = i.Imported+len(imported), i.Kept+len(kept)
	return err
}

// store pushes jobs. If the id exists, the later job is kept.
func (i *run) store(ctx context.Context, jobs []Job) (imported, kept []Job, err error) {
	ctx = store.Via(ctx, jobs[0].Push.Via)
	var again []Job
	for k, r := range i.Jobs.PushBatch(ctx, pushes(jobs)) {
		switch job := jobs[k]; {
		case r.Err != nil:
			err = i.refused(job, r.Err, err)
		case r.Duplicate && job.Push.OnDuplicate == store.Keep && job.replaces(&r.Job):
			job.Push.OnDuplicate = store.Replace
			again = append(again, job)
		case r.Duplicate && job.Push.OnDuplicate == store.Keep:
			kept = append(kept, job)
		default:
			imported = append(imported, job)
		}
	}
	if err != nil || len(again) == 0 {
		return imported, kept, err
	}
	more, _, err := i.store(ctx, again)
	return append(imported, more...), kept, err
}

// replaces reports whether a job is later than the existing one with its id. If the old system does not record when it
// accepted a job, the job is later if the existing one was stored before the claim and has been called: otherwise
// nobody would call this one.
func (j *Job) replaces(existing *store.Job) bool {
	if !j.Added.IsZero() {
		return j.Added.After(existing.CreatedAt)
	}
	taken := existing.State == store.Running || existing.State == store.Dead
	return taken && existing.CreatedAt.Before(j.Claimed)
}

func pushes(jobs []Job) []store.Push {
	list := make([]store.Push, len(jobs))
	for k, job := range jobs {
		list[k] = job.Push
		if max(job.Push.Delay, time.Until(job.Push.DueAt)) > store.MaxDelay { // limited, as in the gateways
			list[k].DueAt, list[k].Delay = time.Time{}, store.MaxDelay
		}
	}
	return list
}

// refused returns an error if it must end the import. It logs errors that concern only one job.
func (i *run) refused(job Job, err, before error) error {
	if errors.As(err, new(*store.UnavailableError)) {
		return fmt.Errorf("push %s/%s: %w", job.Push.Topic, job.Push.ID, err)
	}
	i.Refused++
	i.Logger.Warn("job not imported; its claim stays in the old system",
		"topic", job.Push.Topic, "id", job.Push.ID, "error", err)
	return before
}
