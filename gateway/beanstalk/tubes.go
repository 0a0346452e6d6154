package beanstalk

import (
	"cmp"
	"context"
	"maps"
	"slices"
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

// topicOf returns the topic with the jobs of a tube.
func topicOf(tube string) string { return prefix + registry.EscapeName(tube) }

// tubeOf is the inverse of topicOf.
func tubeOf(topic string) (tube string, ok bool) {
	name, ok := strings.CutPrefix(topic, prefix)
	if !ok {
		return "", false
	}
	return registry.UnescapeName(name)
}

// tube is what a gateway knows about a tube. A tube that nobody uses or watches exists as long as it has jobs.
type tube struct {
	name  string
	order uint64    // position in the list of tubes
	met   time.Time // when a job was last seen; zero: it may have none

	permanent                      bool
	using, watching, waiting       int
	totalJobs, cmdDelete, cmdPause uint64
	pause                          time.Duration // as requested
	pausedUntil                    time.Time
}

func (t *tube) idle() bool {
	return !t.permanent && t.using == 0 && t.watching == 0 && t.met.IsZero()
}

// tubes are the tubes of a gateway.
type tubes struct {
	now func() time.Time

	mu        sync.Mutex
	known     map[string]*tube
	made      uint64 // tubes created so far
	refreshed time.Time
	changed   context.Context // done when a tube was paused, or its pause has ended
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
	made := &tube{name: name, order: t.made}
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

// put records that a job was stored in a tube just now.
func (t *tubes) put(name string) {
	t.edit(name, func(known *tube) {
		known.met = t.now()
		known.totalJobs++
	})
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
	t.change()
	t.changed, t.change = context.WithCancel(context.Background())
	return true
}

// plan holds the topics from which a reserve may take a job.
type plan struct {
	topics  []string        // of the tubes that are not paused
	resumes time.Time       // when the first paused tube resumes; zero: none is paused
	changed context.Context // done when the plan may have changed
}

func (t *tubes) plan(names []string) plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := plan{changed: t.changed}
	for _, name := range names {
		known := t.known[name]
		if known == nil || !known.pausedUntil.After(t.now()) {
			p.topics = append(p.topics, topicOf(name))
		} else if p.resumes.IsZero() || known.pausedUntil.Before(p.resumes) {
			p.resumes = known.pausedUntil
		}
	}
	return p
}

// refreshEvery is how long stats-tube may not show a tube that another host has just begun to use.
const refreshEvery = time.Second

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
	for _, topic := range topics {
		if name, ok := tubeOf(topic); ok {
			t.at(name).met = t.now()
		}
	}
	if err != nil {
		return err
	}
	maps.DeleteFunc(t.known, func(_ string, known *tube) bool {
		if known.met.Before(began) {
			known.met = time.Time{}
		}
		return known.idle()
	})
	return nil
}
