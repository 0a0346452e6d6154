// Package metrics counts by topic for /metrics, with bounded series. A limited number of topics have their own series,
// and only if they were counted in the last hour. All others share the topic Other, which is not a valid name. A series
// that returns starts at zero, as Prometheus expects of a counter.
//
//wakecall:figures
package metrics

import (
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
	// DefaultMost is the default limit of topics with their own series.
	DefaultMost = 1000
)

// Counter is a counter by topic and other labels.
type Counter struct {
	vec  *prometheus.CounterVec
	most int
	now  func() time.Time

	mu    sync.RWMutex
	used  map[string]*atomic.Int64 // by topic: time of the last count, in seconds
	swept time.Time
}

// New returns a counter whose first label is the topic. most limits the topics with their own series; 0: DefaultMost.
func New(name, help string, most int, labels ...string) *Counter {
	if most == 0 {
		most = DefaultMost
	}
	return &Counter{
		vec: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: name, Help: help}, append([]string{"topic"}, labels...)),
		most: most, now: time.Now, used: map[string]*atomic.Int64{},
	}
}

// Inc adds one for a topic.
func (c *Counter) Inc(topic string, values ...string) {
	c.mu.RLock()
	used := c.used[topic]
	if used == nil {
		c.mu.RUnlock()
		used, topic = c.admit(topic)
		c.mu.RLock()
	}
	defer c.mu.RUnlock() // so that no sweep deletes the series in between
	if used != nil {
		used.Store(c.now().Unix())
	}
	c.vec.WithLabelValues(append([]string{topic}, values...)...).Inc()
}

// admit gives a topic its own series if the limit allows it.
func (c *Counter) admit(topic string) (*atomic.Int64, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.used) >= c.most {
		c.sweep()
	}
	if c.used[topic] == nil {
		if len(c.used) >= c.most {
			return nil, Other
		}
		c.used[topic] = &atomic.Int64{}
	}
	c.used[topic].Store(c.now().Unix())
	return c.used[topic], topic
}

// sweep removes the series of topics that were not counted for Kept. It runs at most once a minute, because admit may
// call it for many topics above the limit.
func (c *Counter) sweep() {
	now := c.now()
	if now.Sub(c.swept) < time.Minute {
		return
	}
	c.swept = now
	for topic, used := range c.used {
		if now.Sub(time.Unix(used.Load(), 0)) > Kept {
			delete(c.used, topic)
			c.vec.DeletePartialMatch(prometheus.Labels{"topic": topic})
		}
	}
}

// Describe implements prometheus.Collector.
func (c *Counter) Describe(ch chan<- *prometheus.Desc) { c.vec.Describe(ch) }

// Collect implements prometheus.Collector.
func (c *Counter) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	c.sweep()
	c.mu.Unlock()
	c.vec.Collect(ch)
}
