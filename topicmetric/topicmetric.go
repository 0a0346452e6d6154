// Package topicmetric counts by topic for /metrics, with bounded series: at most so many topics have series of their
// own, and only those that were counted in the last hour. All others share one, Other, which no topic can be named. A
// topic's series begin again at zero when they come back, as Prometheus expects of a counter.
package topicmetric

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// Other is the topic of the series that topics share.
	Other = "(other)"
	// Kept is how long a topic has series of its own after it was counted last.
	Kept = time.Hour
	// DefaultMost is how many topics have series of their own.
	DefaultMost = 1000
)

// Counter is a counter by topic and other labels.
type Counter struct {
	vec  *prometheus.CounterVec
	most int
	now  func() time.Time

	mu    sync.RWMutex
	used  map[string]*atomic.Int64 // by topic: when it was counted last, in seconds
	swept time.Time
}

// New makes a counter whose first label is the topic. most 0 is DefaultMost.
func New(name, help string, most int, labels ...string) *Counter {
	if most == 0 {
		most = DefaultMost
	}
	return &Counter{
		vec:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"topic"}, labels...)),
		most: most, now: time.Now, used: map[string]*atomic.Int64{},
	}
}

// Inc counts one of a topic.
func (c *Counter) Inc(topic string, values ...string) {
	c.mu.RLock()
	used := c.used[topic]
	if used == nil {
		c.mu.RUnlock()
		used, topic = c.admit(topic)
		c.mu.RLock()
	}
	defer c.mu.RUnlock() // a sweep deletes no series in between
	if used != nil {
		used.Store(c.now().Unix())
	}
	c.vec.WithLabelValues(append([]string{topic}, values...)...).Inc()
}

// admit gives a topic series of its own if there is room.
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

// sweep removes the series of topics that were not counted for a while; once a minute, for many may be refused.
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
