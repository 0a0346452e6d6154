// Package metrics counts by topic for /metrics, with bounded series. A limited number of topics have their own series,
// and only if they were counted in the last hour. All others share the topic Other, which is not a valid name. When
// topics without their own series are counted, those that were not counted in the last minute make room, because
// clients may use a queue for one job. A series that returns starts at zero, as Prometheus expects of a counter.
//
//wakecall:figures
package metrics

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// Other is the topic label of shared series.
	Other = "(other)"
	// Kept is how long a topic keeps its own series after it was last counted.
	Kept = time.Hour
	// keptFull is the same while all series are in use: longer than the interval of scrapes.
	keptFull = time.Minute
	// DefaultMost is the default limit of topics with their own series.
	DefaultMost = 1000
)

// Counter is a counter by topic and other labels.
type Counter struct {
	vec   *prometheus.CounterVec
	names *Names
}

// New returns a counter whose first label is the topic. most limits the topics with their own series; 0: DefaultMost.
func New(name, help string, most int, labels ...string) *Counter {
	vec := prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: name, Help: help}, append([]string{"topic"}, labels...))
	return &Counter{vec: vec, names: NewNames(most, func(topic string) {
		vec.DeletePartialMatch(prometheus.Labels{"topic": topic})
	})}
}

// Inc adds one for a topic.
func (c *Counter) Inc(topic string, values ...string) {
	if !c.names.Own(topic) {
		topic = Other
	}
	c.vec.WithLabelValues(append([]string{topic}, values...)...).Inc()
}

// Names are the names that have their own series.
type Names struct {
	most    int
	release func(name string)
	now     func() time.Time

	mu    sync.RWMutex
	used  map[string]*atomic.Int64 // by name: time of the last count, in seconds
	swept time.Time
}

// NewNames returns at most most names; 0: DefaultMost. It calls release to delete the series of a name.
func NewNames(most int, release func(name string)) *Names {
	return &Names{
		most: cmp.Or(most, DefaultMost), release: release, now: time.Now, used: map[string]*atomic.Int64{},
	}
}

// Own reports whether a name that is being counted has its own series. They are not released within the next minute.
func (n *Names) Own(name string) bool {
	n.mu.RLock()
	used := n.used[name]
	if used != nil {
		used.Store(n.now().Unix())
	}
	n.mu.RUnlock()
	return used != nil || n.admit(name)
}

// admit gives a name its own series if the limit allows it.
func (n *Names) admit(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.used) >= n.most {
		n.sweep(keptFull, time.Second)
	}
	if n.used[name] == nil {
		if len(n.used) >= n.most {
			return false
		}
		n.used[name] = &atomic.Int64{}
	}
	n.used[name].Store(n.now().Unix())
	return true
}

// Sweep releases the series of names that were not counted for the time Kept.
func (n *Names) Sweep() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep(Kept, time.Minute)
}

// sweep releases the series of names that were not counted for some time. It does so once per interval, because it
// reads all of them. The caller holds n.mu.
func (n *Names) sweep(kept, interval time.Duration) {
	now := n.now()
	if now.Sub(n.swept) < interval {
		return
	}
	n.swept = now
	for name, used := range n.used {
		if now.Sub(time.Unix(used.Load(), 0)) > kept {
			delete(n.used, name)
			n.release(name)
		}
	}
}

// Describe implements prometheus.Collector.
func (c *Counter) Describe(ch chan<- *prometheus.Desc) { c.vec.Describe(ch) }

// Collect implements prometheus.Collector.
func (c *Counter) Collect(ch chan<- prometheus.Metric) {
	c.names.Sweep()
	c.vec.Collect(ch)
}
