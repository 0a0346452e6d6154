package beanstalk

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// Namespace is the namespace with the settings of the tubes.
const Namespace = "beanstalk.*"

const (
	title       = "beanstalkd" // of the namespace
	prefix      = "beanstalk."
	defaultTube = "default"
)

// topicOf returns the topic with the jobs of a tube that have a priority.
func topicOf(tube string, priority uint32) string {
	return fmt.Sprintf("%s%s.%010d", prefix, registry.EscapeName(tube), priority)
}

// parseTopic is the inverse of topicOf.
func parseTopic(topic string) (tube string, priority uint32, ok bool) {
	name, text, _ := strings.Cut(strings.TrimPrefix(topic, prefix), ".")
	n, err := strconv.ParseUint(text, 10, 32)
	tube, ok = registry.UnescapeName(name)
	return tube, uint32(n), ok && err == nil
}

// tube is what a gateway knows about a tube. A tube that nobody uses or watches exists as long as it has jobs.
type tube struct {
	name       string
	order      uint64               // position in the list of tubes
	priorities map[uint32]time.Time // when each priority of its current and possibly earlier jobs was last seen

	permanent                      bool
	using, watching, waiting       int
	totalJobs, cmdDelete, cmdPause uint64
	pause                          time.Duration // as requested
	pausedUntil                    time.Time
}

func (t *tube) idle() bool {
	return !t.permanent && t.using == 0 && t.watching == 0 && len(t.priorities) == 0
}

// tubes are the tubes of a gateway.
type tubes struct {
	now func() time.Time

	mu        sync.Mutex
	known     map[string]*tube
	made      uint64 // tubes created so far
	refreshed time.Time
	changed   context.Context // done when the topics of a reserve may have changed
	change    context.CancelFunc
}

func newTubes() *tubes {
	t := &tubes{now: time.Now, known: map[string]*tube{}}
	t.changed, t.change = context.WithCancel(context.Background())
	t.at(defaultTube).permanent = true
	return t
}

// at returns a tube, and creates it if necessary. The caller holds t.mu, or t is new.
func (t *tubes) at(name string) *tube {
	if known := t.known[name]; known != nil {
		return known
	}
	t.made++
	made := &tube{name: name, order: t.made, priorities: map[uint32]time.Time{}}
	t.known[name] = made
	return made
}

// edit changes a tube. It creates the tube if necessary, and removes it if it is idle afterwards.
func (t *tubes) edit(name string, change func(*tube)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.at(name)
	change(known)
	if known.idle() {
		delete(t.known, name)
	}
}

// look calls read with a tube, and reports whether the tube exists.
func (t *tubes) look(name string, read func(*tube)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.known[name]
	if known != nil {
		read(known)
	}
	return known != nil
}

// names returns the names of all tubes, in the order in which the gateway first saw them.
func (t *tubes) names() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	byOrder := func(a, b *tube) int { return cmp.Compare(a.order, b.order) }
	for _, known := range slices.SortedFunc(maps.Values(t.known), byOrder) {
		names = append(names, known.name)
	}
	return names
}

// met records that a job with a priority was stored in a tube just now.
func (t *tubes) met(name string, priority uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.at(name)
	_, before := known.priorities[priority]
	known.priorities[priority] = t.now()
	if !before {
		t.tell()
	}
}

// tell makes waiting reserves compute their topics again. The caller holds t.mu.
func (t *tubes) tell() {
	t.change()
	t.changed, t.change = context.WithCancel(context.Background())
}

// pauseTube pauses reserves of a tube for d; 0 ends the pause.
func (t *tubes) pauseTube(name string, d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.known[name]
	if known == nil {
		return false
	}
	known.cmdPause++
	known.pause, known.pausedUntil = d, t.now().Add(d)
	t.tell()
	return true
}

// topics returns the topics of a tube, most urgent first.
func (t *tubes) topics(name string) (topics []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.known[name]; known != nil {
		for _, priority := range slices.Sorted(maps.Keys(known.priorities)) {
			topics = append(topics, topicOf(name, priority))
		}
	}
	return topics
}

// plan holds the topics from which a reserve may take a job.
type plan struct {
	topics  []string        // topics of the tubes that are not paused, most urgent first
	resumes time.Time       // when the first paused tube resumes; zero: none is paused
	changed context.Context // done when the plan may have changed
}

func (t *tubes) plan(names []string) plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := plan{changed: t.changed}
	type place struct {
		tube     string
		priority uint32
	}
	var places []place
	for _, name := range names {
		known := t.known[name]
		if known == nil {
			continue
		}
		if known.pausedUntil.After(t.now()) {
			if p.resumes.IsZero() || known.pausedUntil.Before(p.resumes) {
				p.resumes = known.pausedUntil
			}
			continue
		}
		for priority := range known.priorities {
			places = append(places, place{name, priority})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.priority, b.priority) })
	for _, at := range places {
		p.topics = append(p.topics, topicOf(at.tube, at.priority))
	}
	return p
}

// recent calls refresh unless it was called recently. Shards that do not answer are not an error: only their jobs wait.
func (t *tubes) recent(ctx context.Context, q Queue) error {
	t.mu.Lock()
	old := t.now().Sub(t.refreshed) > refreshEvery
	t.mu.Unlock()
	if !old {
		return nil
	}
	if err := t.refresh(ctx, q); !queue.IsPartial(err) {
		return err
	}
	return nil
}

// refresh reads which tubes have jobs, because other hosts store jobs, too. Tubes of shards that do not answer are
// kept.
func (t *tubes) refresh(ctx context.Context, q Queue) error {
	began := t.now()
	topics, err := q.Members(ctx, Namespace)
	if err != nil && !queue.IsPartial(err) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refreshed = began
	fresh := false
	for _, topic := range topics {
		name, priority, ok := parseTopic(topic)
		if !ok {
			continue
		}
		known := t.at(name)
		_, before := known.priorities[priority]
		known.priorities[priority] = t.now()
		fresh = fresh || !before
	}
	if fresh {
		t.tell()
	}
	if err != nil {
		return err
	}
	maps.DeleteFunc(t.known, func(_ string, known *tube) bool {
		maps.DeleteFunc(known.priorities, func(_ uint32, met time.Time) bool { return met.Before(began) })
		return known.idle()
	})
	return nil
}
