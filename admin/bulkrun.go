package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/wakecall/wakecall/queue"
)

const (
	bulkPage    = 500              // jobs of one step of listing
	bulkChunk   = 200              // jobs of one step of acting; a step that a kill interrupts is done again
	bulkAtOnce  = 8                // calls in flight
	bulkLimit   = 2_000_000        // jobs of one task: 8 bytes of each are in memory while they are listed
	bulkSweeps  = 5                // through the jobs while they are listed
	bulkTries   = 30               // of a step that the queue refuses
	bulkWait    = 2 * time.Second  // between them
	bulkClocks  = 10 * time.Second // by which those of Redis and of this host may differ
	bulkFolder  = 0o700
	bulkNewline = '\n'
)

// bulkQueue is what bulk work on jobs needs.
type bulkQueue interface {
	List(ctx context.Context, topic string, s queue.State, cursor string, limit int) ([]queue.Job, string, error)
	Lookup(ctx context.Context, refs []queue.Ref, shard string) ([]*queue.Job, error)
	Change(ctx context.Context, topic, id string, change queue.Change) (*queue.Job, error)
	Delete(ctx context.Context, topic, id string) error
	RunNow(ctx context.Context, topic, id string) (*queue.Job, error)
	RedriveDead(ctx context.Context, topic string, ids []string, limit int) (int, error)
	DeleteDead(ctx context.Context, topic string, ids []string, limit int) (int, error)
}

// bulker carries out one task in two steps. First it writes down, in a file, which jobs match; then it acts on those, a chunk at a time, and
// keeps how far it is. So a job that moves while others are acted upon is neither forgotten nor met twice, and a restart goes on where it was.
type bulker struct {
	queue  bulkQueue
	run    *taskRun
	params bulkParams
	file   string
	wait   time.Duration
	mu     sync.Mutex // of params.Result
}

// bulkTarget is a job that matched at the start. When it was created tells it from a later one of its name.
type bulkTarget struct {
	Shard   string `json:"s"`
	ID      string `json:"i"`
	Created int64  `json:"c"` // Unix ms
	At      int64  `json:"a"` // when it was to be called, of a dead one when it died, Unix ms
	Calls   int    `json:"n"` // made so far
}

func timeOf(j *queue.Job) time.Time {
	if j.State == queue.Dead {
		return j.DeadAt
	}
	return callTime(j)
}

func (a *Admin) bulkTask(ctx context.Context, run *taskRun) error {
	b := &bulker{queue: a.queue, run: run, wait: bulkWait}
	if err := json.Unmarshal(run.Params, &b.params); err != nil {
		return fmt.Errorf("read what the task should do: %w", err)
	}
	dir := a.opts.Pages.WorkDir
	if dir == "" {
		return sayError("tasks.why_no_folder")
	}
	if err := os.MkdirAll(dir, bulkFolder); err != nil {
		return fmt.Errorf("make the folder for lists of jobs: %w", err)
	}
	b.file = filepath.Join(dir, "task-"+strconv.FormatUint(run.ID, 10)+".jsonl")
	err := b.work(ctx)
	if err == nil || ctx.Err() == nil || errors.Is(context.Cause(ctx), errTaskCancelled) {
		_ = os.Remove(b.file) // left there when this process ends, for the next
	}
	return err
}

func (b *bulker) work(ctx context.Context) error {
	if !b.params.Listed {
		if err := b.list(ctx); err != nil {
			return err
		}
	}
	f, err := os.Open(b.file)
	if errors.Is(err, os.ErrNotExist) {
		return sayError("tasks.why_list_lost") // beginning again would act twice
	}
	if err != nil {
		return fmt.Errorf("read the list of jobs: %w", err)
	}
	defer func() { _ = f.Close() }()
	return b.act(ctx, f)
}

// list writes down what matches. Jobs move between the queue's lists meanwhile, so it goes through them until nothing new is found.
func (b *bulker) list(ctx context.Context) error {
	f, err := os.OpenFile(b.file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the list of jobs: %w", err)
	}
	buffered := bufio.NewWriter(f)
	l := &bulkList{out: json.NewEncoder(buffered), seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
	for sweep := 0; err == nil && sweep < bulkSweeps && !b.params.Full; sweep++ {
		before := len(l.known)
		if err = b.sweep(ctx, l); len(l.known) == before {
			break
		}
	}
	err = errors.Join(err, buffered.Flush(), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	b.run.total(int64(len(l.known)))
	b.params.Listed = true
	b.keep(ctx)
	return ctx.Err()
}

// bulkList is the list being written.
type bulkList struct {
	out   *json.Encoder
	seed  maphash.Seed
	known map[uint64]struct{}
}

func (l *bulkList) add(j *queue.Job) error {
	key := maphash.String(l.seed, strconv.FormatInt(j.CreatedAt.UnixMilli(), 36)+"/"+j.ID)
	if _, ok := l.known[key]; ok {
		return nil
	}
	l.known[key] = struct{}{}
	return l.out.Encode(bulkTarget{j.Shard, j.ID, j.CreatedAt.UnixMilli(), timeOf(j).UnixMilli(), j.Attempts})
}

func (b *bulker) sweep(ctx context.Context, l *bulkList) error {
	for cursor := ""; ; {
		var jobs []queue.Job
		var next string
		err := b.patiently(ctx, func() (err error) {
			jobs, next, err = b.queue.List(ctx, b.params.Filter.Topic, b.params.Filter.State, cursor, bulkPage)
			return err
		})
		if err != nil {
			return err
		}
		for i := range jobs {
			if j := &jobs[i]; b.params.Filter.match(j) && !j.CreatedAt.After(b.run.CreatedAt.Add(bulkClocks)) { // later ones are not meant
				if err := l.add(j); err != nil {
					return fmt.Errorf("write the list of jobs: %w", err)
				}
			}
		}
		b.run.total(int64(len(l.known)))
		if cursor = next; cursor == "" {
			return nil
		}
		if b.params.Full = len(l.known) >= bulkLimit; b.params.Full {
			return nil
		}
	}
}

// patiently tries a step again while a shard does not answer.
func (b *bulker) patiently(ctx context.Context, step func() error) error {
	for try := 1; ; try++ {
		err := step()
		if err == nil || ctx.Err() != nil || try == bulkTries {
			return err
		}
		if err := pause(ctx, b.wait); err != nil {
			return err
		}
	}
}

// act goes through the list from where it was.
func (b *bulker) act(ctx context.Context, f *os.File) error {
	if _, err := f.Seek(b.params.Offset, io.SeekStart); err != nil {
		return fmt.Errorf("read the list of jobs: %w", err)
	}
	lines := bufio.NewReader(f)
	for {
		chunk, size, err := readTargets(lines)
		if err != nil {
			return err
		}
		if len(chunk) == 0 {
			return b.over()
		}
		for begin := 0; begin < len(chunk); {
			end := begin + 1
			for end < len(chunk) && chunk[end].Shard == chunk[begin].Shard {
				end++
			}
			b.chunk(ctx, chunk[begin:end])
			begin = end
		}
		if ctx.Err() != nil {
			b.run.report(b.params) // kept when the task is cancelled, and not when this process ends
			return ctx.Err()
		}
		b.params.Offset += size
		b.run.progress(int64(len(chunk)), 0)
		b.keep(ctx)
	}
}

// over tells when a task could not hold all that match.
func (b *bulker) over() error {
	if b.params.Full {
		return &stoppedError{sayable{"tasks.why_full", []any{bulkLimit}}}
	}
	return nil
}

// keep saves how far it is, before the next step begins.
func (b *bulker) keep(ctx context.Context) {
	b.run.report(b.params)
	b.run.save(ctx)
}

// readTargets reads the next chunk and tells its length in bytes.
func readTargets(lines *bufio.Reader) (chunk []bulkTarget, size int64, err error) {
	for len(chunk) < bulkChunk {
		line, err := lines.ReadBytes(bulkNewline)
		if errors.Is(err, io.EOF) {
			return chunk, size, nil
		}
		var t bulkTarget
		if err == nil {
			err = json.Unmarshal(line, &t)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read the list of jobs: %w", err)
		}
		size += int64(len(line))
		chunk = append(chunk, t)
	}
	return chunk, size, nil
}

// chunk acts on jobs that a shard held when they were listed.
func (b *bulker) chunk(ctx context.Context, targets []bulkTarget) {
	refs := make([]queue.Ref, len(targets))
	for i, t := range targets {
		refs[i] = queue.Ref{Topic: b.params.Filter.Topic, ID: t.ID}
	}
	var jobs []*queue.Job
	err := b.patiently(ctx, func() (err error) {
		jobs, err = b.queue.Lookup(ctx, refs, targets[0].Shard)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			b.count(countFailed, int64(len(targets)), err)
		}
		return
	}
	var act []*queue.Job
	for i, t := range targets {
		switch n := b.judge(t, jobs[i]); n {
		case nil:
			act = append(act, jobs[i])
		default:
			b.count(n, 1, nil)
		}
	}
	b.actOn(ctx, act)
}

type counter func(*bulkResult) *int64

func countDone(r *bulkResult) *int64    { return &r.Done }
func countRunning(r *bulkResult) *int64 { return &r.Running }
func countGone(r *bulkResult) *int64    { return &r.Gone }
func countMoved(r *bulkResult) *int64   { return &r.Moved }
func countFailed(r *bulkResult) *int64  { return &r.Failed }

func (b *bulker) count(which counter, n int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*which(&b.params.Result) += n
	if err != nil && b.params.Result.Error == "" {
		b.params.Result.Error = err.Error()
	}
}

// judge says what is counted for a job with which nothing is to be done; nil: it is to be acted upon.
func (b *bulker) judge(t bulkTarget, j *queue.Job) counter {
	switch {
	case j == nil || j.CreatedAt.UnixMilli() != t.Created:
		return countGone
	case j.State == queue.Running:
		return countRunning
	case b.params.Do == "due" && b.dueFrom(time.UnixMilli(t.At)).UnixMilli() == callTime(j).UnixMilli():
		return countDone // by the step that a restart interrupted
	case !b.params.Filter.match(j),
		b.params.Do == "run" && j.Attempts != t.Calls, // it was called since
		b.params.Do == "retry" && j.DeadAt.UnixMilli() != t.At:
		return countMoved
	}
	return nil
}

// dueFrom is when a job is to be called that was to be called at a time.
func (b *bulker) dueFrom(at time.Time) time.Time {
	if !b.params.At.IsZero() {
		return b.params.At
	}
	return at.Add(b.params.Shift)
}

func (b *bulker) actOn(ctx context.Context, jobs []*queue.Job) {
	if len(jobs) == 0 || ctx.Err() != nil {
		return
	}
	if jobs[0].State == queue.Dead {
		b.actOnDead(ctx, jobs)
		return
	}
	var wg sync.WaitGroup
	next := make(chan *queue.Job)
	for range min(bulkAtOnce, len(jobs)) {
		wg.Go(func() {
			for j := range next {
				if ctx.Err() == nil {
					b.settle(ctx, b.one(ctx, j))
				}
			}
		})
	}
	for _, j := range jobs {
		next <- j
	}
	close(next)
	wg.Wait()
}

func (b *bulker) one(ctx context.Context, j *queue.Job) (err error) {
	switch b.params.Do {
	case "run":
		_, err = b.queue.RunNow(ctx, j.Topic, j.ID)
	case "delete":
		err = b.queue.Delete(ctx, j.Topic, j.ID)
	case "due":
		due := b.dueFrom(callTime(j))
		_, err = b.queue.Change(ctx, j.Topic, j.ID, queue.Change{DueAt: &due})
	}
	return err
}

// settle counts what came of a job.
func (b *bulker) settle(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() != nil: // the task ends, or goes on with this job
	case err == nil:
		b.count(countDone, 1, nil)
	case errors.Is(err, queue.ErrNotFound):
		b.count(countGone, 1, nil)
	case errors.Is(err, queue.ErrRunning):
		b.count(countRunning, 1, nil)
	case errors.Is(err, queue.ErrDead):
		b.count(countMoved, 1, nil)
	default:
		b.count(countFailed, 1, err)
	}
}

func (b *bulker) actOnDead(ctx context.Context, jobs []*queue.Job) {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	act := b.queue.RedriveDead
	if b.params.Do == "delete" {
		act = b.queue.DeleteDead
	}
	n, err := act(ctx, b.params.Filter.Topic, ids, len(ids))
	b.count(countDone, int64(n), nil)
	rest := int64(len(ids) - n)
	switch {
	case err != nil && ctx.Err() != nil:
	case rest > 0 && err != nil:
		b.count(countFailed, rest, err)
	case rest > 0:
		b.count(countGone, rest, nil)
	}
}
