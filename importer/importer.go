package importer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Old is a system to import from.
type Old interface {
	// Lock returns ErrLocked while another import from this system runs.
	Lock(ctx context.Context) error
	// Topics are those to register.
	Topics(ctx context.Context) ([]registry.Topic, error)
	// Waiting is how many jobs wait.
	Waiting(ctx context.Context) (int, error)
	// Claim takes at most n jobs of the topics that there are; none when no such job waits.
	Claim(ctx context.Context, n int) ([]Job, error)
	// Left are the claims that earlier imports left behind.
	Left(ctx context.Context) ([]Job, error)
	// Drop forgets jobs of one claim.
	Drop(ctx context.Context, jobs []Job) error
}

// Job is a claimed job.
type Job struct {
	Push    queue.Push // Via names the claim
	Added   time.Time  // when the old system accepted it
	Key     any        // of its claim, for the Old
	Claimed time.Time  // of a claim that was left
}

// Registry is the registry as an import needs it.
type Registry interface {
	Snapshot() *registry.Snapshot
	PutTopic(
		ctx context.Context, actor string, t registry.Topic, conditions ...registry.Condition,
	) (created bool, err error)
}

// Jobs is the queue as an import needs it.
type Jobs interface {
	PushBatch(ctx context.Context, pushes []queue.Push) []queue.Result
	Lookup(ctx context.Context, refs []queue.Ref, shard string) ([]*queue.Job, error)
}

// Options of an import.
type Options struct {
	Old      Old
	Registry Registry
	Jobs     Jobs
	Journal  string                          // directory of the journal
	DryRun   bool                            // only count
	Follow   bool                            // go on until ctx is done: producers still add to the old system
	Prepare  func(ctx context.Context) error // brings what the old system has beside topics and jobs
	Progress func(Report)
	Logger   *slog.Logger
}

// Report is what an import did.
type Report struct {
	Topics   int `json:"topics"`            // that the old system has
	Made     int `json:"topics_registered"` // of them; the others exist and stay as they are
	Waiting  int `json:"waiting"`           // jobs at the beginning
	Imported int `json:"imported"`
	Resumed  int `json:"resumed"` // of an import that was interrupted
	Kept     int `json:"kept"`    // their ids exist here, pushed later than there
	Refused  int `json:"refused"` // their claims stay; the log says why
	Left     int `json:"left"`    // in the old system at the end: its consumers have them, say
}

const (
	step       = 500 // jobs of one claim
	followEach = time.Second
	actor      = "import"
)

// Run imports until nothing waits in the old system, or with Follow until ctx is done.
func Run(ctx context.Context, o Options) (r Report, err error) {
	i := &run{Options: o}
	if !o.DryRun {
		if err := o.Old.Lock(ctx); err != nil {
			return i.Report, err
		}
		if err := o.Prepare(ctx); err != nil {
			return i.Report, err
		}
	}
	if err := i.topics(ctx); err != nil {
		return i.Report, err
	}
	if i.Waiting, err = o.Old.Waiting(ctx); err != nil || o.DryRun {
		return i.Report, err
	}
	if err := i.resume(ctx); err != nil {
		return i.Report, err
	}
	for ctx.Err() == nil {
		jobs, err := o.Old.Claim(ctx, step)
		switch {
		case err != nil && ctx.Err() != nil: // what was claimed meanwhile is found by the next import
		case err != nil:
			return i.Report, err
		case len(jobs) > 0:
			if err := i.push(ctx, jobs); err != nil {
				return i.Report, err
			}
			o.Progress(i.Report)
		case !o.Follow:
			return i.end(ctx)
		default:
			pause(ctx, followEach)
		}
	}
	if o.Follow {
		return i.end(context.WithoutCancel(ctx))
	}
	return i.Report, ctx.Err()
}

func (i *run) end(ctx context.Context) (_ Report, err error) {
	i.Left, err = i.Old.Waiting(ctx)
	return i.Report, err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

type run struct {
	Options
	Report
}

// topics registers the topics that do not exist.
func (i *run) topics(ctx context.Context) error {
	topics, err := i.Old.Topics(ctx)
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
			return fmt.Errorf("register the topic %s: %w", t.Name, err)
		}
	}
	return nil
}

// valid names all topics that cannot be registered.
func valid(topics []registry.Topic) error {
	var errs []error
	for _, t := range topics {
		if err := t.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("the topic %s cannot be registered: %w", t.Name, err))
		}
	}
	return errors.Join(errs...)
}

// resume pushes what an interrupted import has claimed and not pushed.
func (i *run) resume(ctx context.Context) error {
	left, err := i.Old.Left(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	i.Resumed = len(left)
	done, todo, err := i.unpushed(ctx, left)
	if err != nil {
		return err
	}
	for _, jobs := range byClaim(done) {
		if err := i.Old.Drop(ctx, jobs); err != nil {
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

// noted is how long a dispatcher may take to note a call whose job is gone.
const noted = 3 * time.Second

// unpushed separates the claims that an interrupted import has pushed from the others. Jobs were pushed whose line is
// in the journal, and those that were stored just before the import was killed: they are there, or have been called
// since.
func (i *run) unpushed(ctx context.Context, left []Job) (done, todo []Job, err error) {
	pushed := i.linesOf(left)
	var unsure []Job
	var refs []queue.Ref
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
	stored, err := i.Jobs.Lookup(ctx, refs, "")
	if err != nil {
		return nil, nil, fmt.Errorf("look for the jobs of an interrupted import: %w", err)
	}
	pause(ctx, noted)
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
	queue.Ref
}

func (j *Job) ref() queue.Ref { return queue.Ref{Topic: j.Push.Topic, ID: j.Push.ID} }

// linesOf are the lines of claims that the journal has.
func (i *run) linesOf(left []Job) map[line]bool {
	lines := map[line]bool{}
	for _, job := range left {
		lines[line{job.Push.Via, job.ref()}] = false
	}
	for l, err := range journal.ReadRequests(i.Journal, journal.Range{}) {
		i.unreadable(err)
		if key := (line{l.Via, queue.Ref{Topic: l.Topic, ID: l.ID}}); err == nil {
			if _, ours := lines[key]; ours {
				lines[key] = true
			}
		}
	}
	return lines
}

// calls are the jobs that the journal knows to have been called, with the time at which the last of an id was created.
func (i *run) calls(refs []queue.Ref) map[queue.Ref]time.Time {
	ours, called := map[queue.Ref]bool{}, map[queue.Ref]time.Time{}
	for _, ref := range refs {
		ours[ref] = true
	}
	for l, err := range journal.ReadAttempts(i.Journal, journal.Range{}) {
		i.unreadable(err)
		if ref := (queue.Ref{Topic: l.Topic, ID: l.ID}); err == nil && ours[ref] && l.CreatedAt.After(called[ref]) {
			called[ref] = l.CreatedAt
		}
	}
	return called
}

func (i *run) unreadable(err error) {
	if err != nil {
		i.Logger.Warn("a line of the journal cannot be read", "error", err)
	}
}

// push pushes jobs of one claim and drops their claims.
func (i *run) push(ctx context.Context, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // a claim is finished
	imported, kept, err := i.store(ctx, jobs)
	if dropErr := i.Old.Drop(ctx, append(imported, kept...)); dropErr != nil {
		return fmt.Errorf("drop claims: %w", dropErr)
	}
	i.Imported, i.Kept = i.Imported+len(imported), i.Kept+len(kept)
	return err
}

// store pushes jobs. One whose id exists replaces that job if it was added after it.
func (i *run) store(ctx context.Context, jobs []Job) (imported, kept []Job, err error) {
	ctx = queue.Via(ctx, jobs[0].Push.Via)
	var again []Job
	for k, r := range i.Jobs.PushBatch(ctx, pushes(jobs)) {
		switch job := jobs[k]; {
		case r.Err != nil:
			err = i.refused(job, r.Err, err)
		case r.Duplicate && job.Push.OnDuplicate == queue.Keep && job.Added.After(r.Job.CreatedAt):
			job.Push.OnDuplicate = queue.Replace
			again = append(again, job)
		case r.Duplicate && job.Push.OnDuplicate == queue.Keep:
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

func pushes(jobs []Job) []queue.Push {
	list := make([]queue.Push, len(jobs))
	for k, job := range jobs {
		list[k] = job.Push
	}
	return list
}

// refused returns the error that ends the import: all but those that concern one job.
func (i *run) refused(job Job, err, before error) error {
	if errors.As(err, new(*queue.UnavailableError)) {
		return fmt.Errorf("push %s/%s: %w", job.Push.Topic, job.Push.ID, err)
	}
	i.Refused++
	i.Logger.Warn("a job cannot be imported; its claim stays in the old system",
		"topic", job.Push.Topic, "id", job.Push.ID, "error", err)
	return before
}
