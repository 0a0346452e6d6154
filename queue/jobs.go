package queue

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stateNames are the letters that the scripts give states; f is delayed in a page that is not open yet.
var stateNames = map[string]State{"d": Delayed, "f": Delayed, "r": Ready, "u": Running, "x": Dead}

// described reads what describe() in common.lua tells of a job. A record that cannot be decoded is shown as far as it goes.
func (s *Shard) described(topic string, v any) (*Job, error) {
	d, ok := v.([]any)
	if !ok || len(d) != 6 {
		return nil, fmt.Errorf("describe a job of %s: %w", topic, errReply)
	}
	ref, _ := d[0].(int64)
	letter, _ := d[1].(string)
	record, _ := d[3].(string)
	body, _ := d[4].(string)
	attempts, _ := d[5].(string)
	j := &Job{Topic: topic, Shard: s.name, State: stateNames[letter]}
	if err := decodeRecord(j, ref, record, body); err != nil {
		return nil, fmt.Errorf("describe a job of %s: %w", topic, err)
	}
	if err := decodeAttempts(j, attempts); err != nil && !j.Newer {
		return nil, fmt.Errorf("describe %s/%s: %w", topic, j.ID, err)
	}
	switch j.State {
	case Delayed:
		j.NextAt = millis(d[2])
	case Running:
		j.LeaseUntil = millis(d[2])
	case Dead:
		j.DeadAt = millis(d[2])
	}
	return j, nil
}

// get returns nil without an error when the job is not there.
func (s *Shard) get(ctx context.Context, topic, id string) (*Job, error) {
	reply, err := s.read(ctx, s.bucketOf(topic), []any{topic, s.address(topic, id), id})
	if err != nil {
		return nil, err
	}
	if reply[1] == "" {
		return nil, nil
	}
	return s.described(topic, reply[1])
}

// getStep is how many jobs one call of the get script reads.
const getStep = 100

// getMany looks for the pushes of these indexes and returns the jobs that live, by index. What cannot be asked counts as not there.
func (s *Shard) getMany(ctx context.Context, pushes []Push, which []int) map[int]*Job {
	found := map[int]*Job{}
	_ = s.getInto(ctx, pushes, which, found)
	return found
}

// getInto fills in what was found before an error too.
func (s *Shard) getInto(ctx context.Context, pushes []Push, which []int, found map[int]*Job) error {
	byBucket := map[int][]int{}
	for _, i := range which {
		b := s.bucketOf(pushes[i].Topic)
		byBucket[b] = append(byBucket[b], i)
	}
	var errs []error
	for b, list := range byBucket {
		for chunk := range slices.Chunk(list, getStep) {
			errs = append(errs, s.getChunk(ctx, b, pushes, chunk, found))
		}
	}
	return errors.Join(errs...)
}

// read calls the get script, which takes three arguments a job, and returns the shard's clock and a description of each, "" for none.
func (s *Shard) read(ctx context.Context, bucket int, args []any) ([]any, error) {
	v, err := s.again(ctx, bucket, s.scripts.get, args...)
	if err != nil {
		return nil, err
	}
	reply, ok := v.([]any)
	if !ok || len(reply) != len(args)/3+1 {
		return nil, fmt.Errorf("get %d jobs: %w", len(args)/3, errReply)
	}
	return reply, nil
}

func (s *Shard) getChunk(ctx context.Context, bucket int, pushes []Push, which []int, found map[int]*Job) error {
	args := make([]any, 0, 3*len(which))
	for _, i := range which {
		args = append(args, pushes[i].Topic, s.address(pushes[i].Topic, pushes[i].ID), pushes[i].ID)
	}
	reply, err := s.read(ctx, bucket, args)
	if err != nil {
		return err
	}
	for k, i := range which {
		if reply[k+1] == "" {
			continue
		}
		job, failed := s.described(pushes[i].Topic, reply[k+1])
		if failed != nil {
			err = failed
			continue
		}
		found[i] = job
	}
	return err
}

// Ref names a job.
type Ref struct{ Topic, ID string }

// Lookup returns the jobs of these names, nil where none lives in a shard that is up. The shard named, if any, must be. It may be asked for
// thousands at once.
func (q *Queue) Lookup(ctx context.Context, refs []Ref, shard string) ([]*Job, error) {
	asked := make([]Push, len(refs))
	todo := make([]int, len(refs))
	for i, r := range refs {
		asked[i], todo[i] = Push{Topic: r.Topic, ID: r.ID}, i
	}
	jobs := make([]*Job, len(refs))
	for _, s := range q.following() {
		if !s.Up() {
			if s.name == shard {
				return nil, fmt.Errorf("look up %d jobs: shard %s does not answer", len(refs), s.name)
			}
			continue
		}
		found := map[int]*Job{}
		if err := s.getInto(ctx, asked, todo, found); err != nil {
			return nil, fmt.Errorf("look up %d jobs in shard %s: %w", len(todo), s.name, err)
		}
		for i, job := range found {
			jobs[i] = job
		}
		todo = slices.DeleteFunc(todo, func(i int) bool { return jobs[i] != nil })
	}
	return jobs, nil
}

// following lists all shards in an order in which no job that is being moved is missed: it is in the draining shard or in an active one after that.
func (q *Queue) following() []*Shard {
	shards := slices.Clone(*q.shards.Load())
	slices.SortStableFunc(shards, func(a, b *Shard) int { return strings.Compare(b.State(), a.State()) })
	return shards
}

// removal is what became of deleting a job in one shard.
type removal struct {
	job    *Job  // what is known of it, and the state it was in; nil when there was none
	unsafe error // why no replica has confirmed it, though the durability asks for that
}

func (s *Shard) remove(ctx context.Context, topic, id string, d Durability) (r removal, err error) {
	o, err := s.do(ctx, s.bucketOf(topic), d, s.scripts.remove, topic, s.address(topic, id), id)
	if err != nil {
		return r, err
	}
	if o.unsafe != nil {
		r.unsafe = s.notReplicated("delete", topic, id, o.unsafe)
	}
	reply, ok := o.value.([]any)
	if !ok || len(reply) != 3 {
		return r, fmt.Errorf("delete %s/%s: %w", topic, id, errReply)
	}
	letter, _ := reply[0].(string)
	revision, _ := reply[2].(int64)
	switch {
	case letter != "":
		r.job = &Job{Topic: topic, ID: id, Shard: s.name, State: stateNames[letter], CreatedAt: millis(reply[1]), Revision: revision}
	case o.repeated:
		return r, s.unavailable("connection", errDoubtful)
	}
	return r, nil
}

// removeAll removes every copy of a job: a push whose shard fell before it answered may have left one beside that in the next shard.
func (q *Queue) removeAll(ctx context.Context, topic, id string) (running bool, err error) {
	found := false
	var missed, unsafe, unsafeGone error // unsafeGone: it may have been deleted before, and no replica knows of that
	for _, s := range q.trail(topic, id) {
		r, err := s.remove(ctx, topic, id, q.durability(topic))
		var un *UnavailableError
		switch {
		case errors.As(err, &un):
			missed = err
			continue
		case err != nil:
			return running, err
		case r.job == nil:
			unsafeGone = cmp.Or(unsafeGone, r.unsafe)
			continue
		}
		unsafe = cmp.Or(unsafe, r.unsafe)
		found, running = true, running || r.job.State == Running
		if err := q.record(Deleted, *r.job); err != nil {
			return running, err
		}
	}
	switch {
	case found:
		return running, unsafe
	case missed != nil:
		return false, missed
	case unsafeGone != nil:
		return false, unsafeGone
	}
	return false, fmt.Errorf("%s/%s: %w", topic, id, ErrNotFound)
}

// trail is order, with the active shards once more behind draining ones: a job may have gone from there to here meanwhile.
func (q *Queue) trail(topic, id string) []*Shard {
	order := q.order(topic, id)
	if n := len(order); n > 0 && order[n-1].State() == "draining" {
		order = append(slices.Clone(order), q.active(topic, id)...)
	}
	return order
}

// first asks the shards in a job's order until one knows it. When none does but one could not be asked, that is the error.
func (q *Queue) first(topic, id string, ask func(*Shard) (found bool, err error)) error {
	var missed error
	for _, s := range q.trail(topic, id) {
		found, err := ask(s)
		var un *UnavailableError
		switch {
		case errors.As(err, &un):
			missed = err
		case err != nil || found:
			return err
		}
	}
	if missed != nil {
		return missed
	}
	return fmt.Errorf("%s/%s: %w", topic, id, ErrNotFound)
}

// Get returns a job with its attempts. Errors: ErrNotFound, ErrNewer, *UnavailableError.
func (q *Queue) Get(ctx context.Context, topic, id string) (job *Job, err error) {
	err = q.first(topic, id, func(s *Shard) (bool, error) {
		var err error
		job, err = s.get(ctx, topic, id)
		return job != nil, err
	})
	if err == nil && job.Newer {
		return nil, fmt.Errorf("%s/%s: %w", topic, id, ErrNewer)
	}
	return job, err
}

// Delete removes a job in any state. When it returns nil no callback of the job starts any more; one that runs is not stopped.
// Errors: ErrNotFound, *UnavailableError.
func (q *Queue) Delete(ctx context.Context, topic, id string) error {
	running, err := q.removeAll(ctx, topic, id)
	if running && (err == nil || Stored(err)) {
		err = cmp.Or(outwaitStart(ctx), err)
	}
	return err
}

// outwaitStart waits until a dispatcher that holds a lease which just ended must have noticed (StartWindow).
func outwaitStart(ctx context.Context) error {
	t := time.NewTimer(StartWindow + 50*time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Change edits a delayed or ready job. Errors: ErrNotFound, ErrRunning, ErrDead, ErrTooFar, ErrNewer, *UnavailableError; beside one that is Stored there is
// the changed job.
func (q *Queue) Change(ctx context.Context, topic, id string, c Change) (*Job, error) {
	when := ""
	switch {
	case c.DueAt != nil:
		if time.Until(*c.DueAt) > MaxDelay {
			return nil, fmt.Errorf("change %s/%s: %w", topic, id, ErrTooFar)
		}
		when = strconv.FormatInt(max(0, ceilMilli(*c.DueAt)), 10)
	case c.Delay != nil:
		if *c.Delay > MaxDelay {
			return nil, fmt.Errorf("change %s/%s: %w", topic, id, ErrTooFar)
		}
		when = "+" + strconv.FormatInt(max(0, c.Delay.Milliseconds()), 10)
	}
	priority, given, ownKey := "", "", ""
	if c.Priority != nil {
		priority = strconv.Itoa(int(*c.Priority))
	}
	var body []byte
	if c.Body != nil {
		given, body = "1", *c.Body
		if len(body) > longBody {
			ownKey = "1"
		}
	}
	return q.change(ctx, Changed, topic, id, "change", when, priority, given, body, ownKey)
}

// RunNow makes a job due now; a dead one starts its attempts again. A job that is ready or running stays as it is.
// Errors: ErrNotFound, ErrNewer, *UnavailableError.
func (q *Queue) RunNow(ctx context.Context, topic, id string) (*Job, error) {
	return q.change(ctx, MadeDue, topic, id, "run")
}

// change changes the first job of this id that it finds, and then copies that a push left in other shards when its answer was lost: they would be
// called as they were. What hinders that is not told, since the job is changed.
func (q *Queue) change(ctx context.Context, kind ChangeKind, topic, id string, what ...any) (job *Job, err error) {
	var unsafe error
	err = q.first(topic, id, func(s *Shard) (bool, error) {
		if job != nil {
			if s.hasOther(ctx, topic, job) {
				_, _, _ = q.changeIn(ctx, s, kind, topic, id, what...)
			}
			return false, nil
		}
		var err error
		job, unsafe, err = q.changeIn(ctx, s, kind, topic, id, what...)
		return false, err
	})
	if job != nil {
		return job, unsafe
	}
	return nil, err
}

// hasOther says whether a job of this one's id was pushed here, too. One that was created with it is it, on the move from shard to shard: if both
// were changed, neither would go (see Drain).
func (s *Shard) hasOther(ctx context.Context, topic string, job *Job) bool {
	found, err := s.get(ctx, topic, job.ID)
	return err == nil && found != nil && !found.CreatedAt.Equal(job.CreatedAt)
}

// changeIn does it in one shard; no job when the shard has none of this id. unsafe says why the change is not where its topic's durability wants it.
func (q *Queue) changeIn(ctx context.Context, s *Shard, kind ChangeKind, topic, id string, what ...any) (
	job *Job, unsafe, err error) {
	args := append([]any{topic, s.address(topic, id), id}, what...)
	o, err := s.do(ctx, s.bucketOf(topic), q.durability(topic), s.scripts.change, args...)
	if err != nil {
		return nil, nil, err
	}
	reply, ok := o.value.([]any)
	if !ok || len(reply) != 3 {
		return nil, nil, fmt.Errorf("change %s/%s: %w", topic, id, errReply)
	}
	if o.repeated && (reply[2] == "none" || reply[2] == "running") { // made due by the first try, it may have been reserved since, and delivered
		return nil, nil, s.unavailable("connection", errDoubtful)
	}
	switch reply[2] {
	case "none":
		return nil, nil, nil
	case "running":
		err = ErrRunning
	case "dead":
		err = ErrDead
	case "newer":
		err = ErrNewer
	}
	if err != nil {
		return nil, nil, fmt.Errorf("change %s/%s: %w", topic, id, err)
	}
	if o.unsafe != nil {
		unsafe = s.notReplicated("change", topic, id, o.unsafe)
	}
	if job, err = s.described(topic, reply[2]); err != nil {
		return nil, nil, err
	}
	job.ChangedAt = millis(reply[0])
	if job.Revision, _ = reply[1].(int64); job.Revision == 0 {
		return job, unsafe, nil
	}
	if err := q.record(kind, *job); err != nil {
		return nil, nil, err
	}
	return job, unsafe, nil
}

// listStep bounds what one call of the list script looks at.
const listStep = 100

var innerCursor = regexp.MustCompile(`^(|[dux]:[-+.0-9einf]+:\d+|f:[-+.0-9einf]+:\d+:\d+|r:[0-2]:\d{1,9})$`)

// List returns up to limit jobs of a topic in a state, delayed ones roughly by time, dead ones by when they died, and where to go
// on ("" at the end). Long bodies, and attempts but the last, are left out. Errors: ErrCursor, *UnavailableError.
func (q *Queue) List(ctx context.Context, topic string, state State, cursor string, limit int) ([]Job, string, error) {
	name, inner, err := decodeCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	jobs := []Job{}
	for _, s := range *q.shards.Load() {
		if s.name < name {
			continue
		}
		if s.name != name {
			inner = ""
		}
		for {
			found, next, err := s.listStep(ctx, topic, state, inner, min(listStep, limit-len(jobs)))
			if err != nil {
				return nil, "", err
			}
			jobs = append(jobs, found...)
			if next == "" {
				break
			}
			inner = next
			if len(jobs) >= limit {
				return jobs, encodeCursor(s.name, inner), nil
			}
		}
		name = s.name
		if len(jobs) >= limit {
			return jobs, q.cursorBehind(s.name), nil
		}
	}
	return jobs, "", nil
}

// cursorBehind is the beginning of the next shard, or "".
func (q *Queue) cursorBehind(name string) string {
	for _, s := range *q.shards.Load() {
		if s.name > name {
			return encodeCursor(s.name, "")
		}
	}
	return ""
}

func encodeCursor(shard, inner string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(shard + "\n" + inner))
}

func decodeCursor(c string) (shard, inner string, err error) {
	if c == "" {
		return "", "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil {
		return "", "", fmt.Errorf("cursor %.60q: %w", c, ErrCursor)
	}
	shard, inner, ok := strings.Cut(string(b), "\n")
	if !ok || !innerCursor.MatchString(inner) {
		return "", "", fmt.Errorf("cursor %.60q: %w", c, ErrCursor)
	}
	return shard, inner, nil
}

func (s *Shard) listStep(ctx context.Context, topic string, state State, inner string, limit int) ([]Job, string, error) {
	v, err := s.again(ctx, s.bucketOf(topic), s.scripts.list, topic, string(state), inner, limit)
	if err != nil {
		return nil, "", err
	}
	reply, ok := v.([]any)
	if !ok || len(reply) < 2 {
		return nil, "", fmt.Errorf("list %s: %w", topic, errReply)
	}
	next, _ := reply[1].(string)
	var jobs []Job
	for _, d := range reply[2:] {
		job, err := s.described(topic, d)
		if err != nil {
			s.log.Warn("a job cannot be shown", "topic", topic, "error", err)
			continue
		}
		job.History = job.History[max(0, len(job.History)-1):]
		if job.State == state { // it may have moved on between two steps
			jobs = append(jobs, *job)
		}
	}
	return jobs, next, nil
}

// RedriveDead makes dead jobs ready again with attempts 0: those of ids, or without any the oldest, up to limit. It returns how
// many. Ids that are not dead are passed over.
func (q *Queue) RedriveDead(ctx context.Context, topic string, ids []string, limit int) (int, error) {
	return q.dead(ctx, Redriven, topic, ids, limit)
}

// DeleteDead deletes dead jobs, chosen as in RedriveDead.
func (q *Queue) DeleteDead(ctx context.Context, topic string, ids []string, limit int) (int, error) {
	return q.dead(ctx, DeadDeleted, topic, ids, limit)
}

// deadStep bounds the dead jobs of one script call.
const deadStep = 200

func (q *Queue) dead(ctx context.Context, kind ChangeKind, topic string, ids []string, limit int) (int, error) {
	total := 0
	for _, s := range *q.shards.Load() {
		var n int
		var err error
		if len(ids) > 0 {
			n, err = q.deadIDs(ctx, s, kind, topic, ids)
		} else {
			n, err = q.deadOldest(ctx, s, kind, topic, limit-total)
		}
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (q *Queue) deadOldest(ctx context.Context, s *Shard, kind ChangeKind, topic string, limit int) (int, error) {
	total := 0
	for total < limit {
		n, err := q.someDead(ctx, s, kind, topic, min(deadStep, limit-total), nil)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

func (q *Queue) deadIDs(ctx context.Context, s *Shard, kind ChangeKind, topic string, ids []string) (int, error) {
	total := 0
	for chunk := range slices.Chunk(ids, deadStep) {
		n, err := q.someDead(ctx, s, kind, topic, 0, chunk)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// someDead re-drives or deletes dead jobs in one call of the script and has that recorded.
func (q *Queue) someDead(ctx context.Context, s *Shard, kind ChangeKind, topic string, limit int, ids []string) (int, error) {
	what := "retry"
	if kind == DeadDeleted {
		what = "delete"
	}
	args := []any{topic, what, limit}
	for _, id := range ids {
		args = append(args, s.address(topic, id), id)
	}
	v, err := s.again(ctx, s.bucketOf(topic), s.scripts.dead, args...)
	if err != nil {
		return 0, err
	}
	reply, ok := v.([]any)
	if !ok || len(reply)%3 != 1 {
		return 0, fmt.Errorf("dead jobs of %s: %w", topic, errReply)
	}
	revision, _ := reply[0].(int64)
	jobs := make([]Job, 0, len(reply)/3)
	for v := range slices.Chunk(reply[1:], 3) {
		ref, _ := v[0].(int64)
		id, _ := v[1].(string)
		jobs = append(jobs, Job{
			Topic: topic, ID: givenID(ref, id), Shard: s.name, CreatedAt: millis(v[2]), Revision: revision + int64(len(jobs)),
		})
	}
	return len(jobs), q.record(kind, jobs...)
}
