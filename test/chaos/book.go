package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// job is what its clients know of a job.
type job struct {
	harness.Key
	acknowledged bool
	due          time.Time // no call before it
	changed      time.Time // when a change was answered, since when it is
	later        time.Time // that counts
	anyTime      bool      // it was made due at once, or a change got no answer
	deleted      time.Time // when a deletion was answered with 204
	deleteTried  bool      // a deletion may have happened
}

// event is a line of the record.
type event struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"`
	Job    string    `json:"job,omitempty"`
	Detail string    `json:"detail,omitempty"`
}

// book is what clients did and were told, and what was broken meanwhile.
type book struct {
	mu     sync.Mutex
	jobs   map[harness.Key]*job
	events []event
	pushes map[int]int // by status; 0 for no answer
}

func newBook() *book { return &book{jobs: map[harness.Key]*job{}, pushes: map[int]int{}} }

func (b *book) note(what, job, form string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, event{time.Now(), what, job, fmt.Sprintf(form, args...)})
}

// pushing books a job before its push is sent.
func (b *book) pushing(key harness.Key) *job {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := &job{Key: key}
	b.jobs[key] = j
	return j
}

// pushed books the answer to a push and says whether it was a yes. earliest is what the first try asked for: it may have
// been stored in the shard whose answer was lost, and called there.
func (b *book) pushed(j *job, a harness.Answer, earliest time.Time) bool {
	b.note("push", j.String(), "%s", a)
	var got harness.Job
	ok := a.Err == nil && (a.Status == http.StatusOK || a.Status == http.StatusCreated || a.Status == http.StatusAccepted) && a.JSON(&got) == nil
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pushes[a.Status]++
	if ok {
		j.acknowledged, j.due = true, got.DueAt
		if earliest.Before(j.due) {
			j.due = earliest
		}
	}
	return ok
}

// changed books the answer to a change of the due time, or to making it due at once.
func (b *book) changed(j *job, what string, a harness.Answer) {
	b.note(what, j.String(), "%s", a)
	var got harness.Job
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case a.Err == nil && a.Status == http.StatusOK && a.JSON(&got) == nil:
		j.changed, j.later = time.Now(), got.DueAt
	case a.Err == nil && a.Status >= 400 && a.Status < 500: // it is as it was
	default:
		j.anyTime = true
	}
}

func (b *book) deleting(j *job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j.deleteTried = true
}

func (b *book) removed(j *job, a harness.Answer) {
	b.note("delete", j.String(), "%s", a)
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.Err == nil && a.Status == http.StatusNoContent {
		j.deleted = time.Now()
	}
}

// dueFor is before when no call may come that comes at a moment.
func (j *job) dueFor(at time.Time) time.Time {
	switch {
	case j.anyTime:
		return time.Time{}
	case !j.changed.IsZero() && at.After(j.changed):
		return j.later
	case !j.changed.IsZero() && j.later.Before(j.due): // made earlier, and perhaps before the answer
		return j.later
	}
	return j.due
}

// verdict is what the counting found.
type verdict struct {
	Jobs, Acknowledged, Delivered, Dead, Deleted int
	Calls, Twice                                 int
	Wrong                                        []string
}

// lateArrival is how long after it began a call may be seen by an endpoint on a machine that is as busy as this one.
const lateArrival = 300 * time.Millisecond

// judge counts. dead are the jobs that are dead and visible.
func (b *book) judge(calls []harness.Call, dead map[harness.Key]bool) verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := verdict{Jobs: len(b.jobs), Dead: len(dead), Calls: len(calls)}
	wrong := func(form string, args ...any) { v.Wrong = append(v.Wrong, fmt.Sprintf(form, args...)) }
	yes := map[harness.Key]int{}
	for _, c := range calls {
		j := b.jobs[c.Key]
		if j == nil {
			wrong("INVENTED: %s was called at %s, and nobody pushed it", c.Key, c.At.Format(stamp))
			continue
		}
		if c.Status >= 200 && c.Status < 300 {
			yes[c.Key]++
		}
		if due := j.dueFor(c.At); c.At.Before(due) {
			wrong("EARLY: %s was due at %s and called at %s", c.Key, due.Format(stamp), c.At.Format(stamp))
		}
		if !j.deleted.IsZero() && c.At.After(j.deleted.Add(lateArrival)) {
			wrong("DELETED: %s was called at %s, after its deletion was answered at %s", c.Key, c.At.Format(stamp), j.deleted.Format(stamp))
		}
	}
	for key, j := range b.jobs {
		if yes[key] > 0 {
			v.Delivered++
			v.Twice += yes[key] - 1
		}
		if !j.deleted.IsZero() {
			v.Deleted++
		}
		if !j.acknowledged {
			continue
		}
		v.Acknowledged++
		if yes[key] == 0 && !dead[key] && !j.deleteTried {
			wrong("LOST: %s was acknowledged, and neither said yes to nor dead nor deleted; it was due at %s", key, j.due.Format(stamp))
		}
	}
	sort.Strings(v.Wrong)
	return v
}

const stamp = "15:04:05.000"

// save writes the record, with every call, and returns the file's name.
func (b *book) save(seed uint64, calls []harness.Call) (string, error) {
	f, err := os.CreateTemp("", fmt.Sprintf("wakecall-chaos-%d-*.jsonl", seed))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	events := append([]event{}, b.events...)
	for _, c := range calls {
		events = append(events, event{c.At, "call", c.String(), fmt.Sprintf("attempt %d, due %s, answered %d", c.Attempt, c.DueAt.Format(stamp), c.Status)})
	}
	sort.SliceStable(events, func(i, k int) bool { return events[i].At.Before(events[k].At) })
	enc := json.NewEncoder(f)
	for _, e := range events {
		if err := enc.Encode(e); err != nil {
			return f.Name(), err
		}
	}
	return f.Name(), nil
}
