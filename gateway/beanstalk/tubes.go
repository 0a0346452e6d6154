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

	"github.com/wakecall/wakecall/registry"
)

// Namespace is the name of the namespace that has the settings of the tubes.
const Namespace = "beanstalk.*"

const (
	prefix      = "beanstalk."
	defaultTube = "default"
)

// TopicOf is the topic that has the jobs of a tube with a priority.
func TopicOf(tube string, priority uint32) string {
	return fmt.Sprintf("%s%s.%010d", prefix, registry.EscapeName(tube), priority)
}

// parseTopic is what TopicOf made a topic of.
func parseTopic(topic string) (tube string, priority uint32, ok bool) {
	name, text, _ := strings.Cut(strings.TrimPrefix(topic, prefix), ".")
	n, err := strconv.ParseUint(text, 10, 32)
	tube, ok = registry.UnescapeName(name)
	return tube, uint32(n), ok && err == nil
}

// tube is what a gateway knows of a tube. One that nobody uses or watches is there as long as it has jobs.
type tube struct {
	name       string
	order      uint64               // among all tubes
	priorities map[uint32]time.Time // of its jobs, and maybe of earlier ones; when one was met last

	permanent                      bool
	using, watching, waiting       int
	totalJobs, cmdDelete, cmdPause uint64
	pause                          time.Duration // as it was set
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
	made      uint64 // how many there have been
	refreshed time.Time
	changed   context.Context // ends when a reserve may have other topics
	change    context.CancelFunc
}

func newTubes() *tubes {
	t := &tubes{now: time.Now, known: map[string]*tube{}}
	t.changed, t.change = context.WithCancel(context.Background())
	t.at(defaultTube).permanent = true
	return t
}

// at finds or makes a tube. t.mu is held, or t is new.
func (t *tubes) at(name string) *tube {
	if known := t.known[name]; known != nil {
		return known
	}
	t.made++
	made := &tube{name: name, order: t.made, priorities: map[uint32]time.Time{}}
	t.known[name] = made
	return made
}

// edit changes a tube, which is made if need be, and removes it if it is idle then.
func (t *tubes) edit(name string, change func(*tube)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.at(name)
	change(known)
	if known.idle() {
		delete(t.known, name)
	}
}

// look calls read with a tube, and reports whether it is there.
func (t *tubes) look(name string, read func(*tube)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.known[name]
	if known != nil {
		read(known)
	}
	return known != nil
}

// names are those of all tubes, in the order in which the gateway met them.
func (t *tubes) names() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	byOrder := func(a, b *tube) int { return cmp.Compare(a.order, b.order) }
	for _, known := range slices.SortedFunc(maps.Values(t.known), byOrder) {
		names = append(names, known.name)
	}
	return names
}

// met notes that a job of a priority was just stored in a tube.
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

// tell lets the reserves that wait compute their topics again. t.mu is held.
func (t *tubes) tell() {
	t.change()
	t.changed, t.change = context.WithCancel(context.Background())
}

// pauseTube delays the reserves of a tube; 0 ends that.
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

// topics are those of a tube, the most urgent first.
func (t *tubes) topics(name string) (topics []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.known[name]; known != nil {
		for _, priority := range slices.Sorted(maps.Keys(known.priorities)) {
			topics = append(topics, TopicOf(name, priority))
		}
	}
	return topics
}

// plan is where a reserve may take.
type plan struct {
	topics  []string        // of the tubes that are not paused, the most urgent first
	resumes time.Time       // when the first of the paused ones goes on; zero: none is paused
	changed context.Context // ends when there may be another plan
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
		p.topics = append(p.topics, TopicOf(at.tube, at.priority))
	}
	return p
}

// recent refreshes what was learned too long ago.
func (t *tubes) recent(ctx context.Context, q Queue) error {
	t.mu.Lock()
	old := t.now().Sub(t.refreshed) > refreshEvery
	t.mu.Unlock()
	if !old {
		return nil
	}
	return t.refresh(ctx, q)
}

// refresh learns which tubes have jobs: other hosts store some too.
func (t *tubes) refresh(ctx context.Context, q Queue) error {
	began := t.now()
	topics, err := q.Members(ctx, Namespace)
	if err != nil {
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
	maps.DeleteFunc(t.known, func(_ string, known *tube) bool {
		maps.DeleteFunc(known.priorities, func(_ uint32, met time.Time) bool { return met.Before(began) })
		return known.idle()
	})
	if fresh {
		t.tell()
	}
	return nil
}
