package dispatcher

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/registry"
)

// endpoints caches compiled endpoints by topic, or by the namespace whose settings a topic has. A changed topic or
// namespace is a new pointer in the registry's snapshot.
type endpoints struct {
	mu     sync.RWMutex
	byName map[string]compiled
}

type compiled struct {
	topic    *registry.Topic
	endpoint *callback.Endpoint
	err      error
}

// endpoint returns the endpoint of a topic, which the registry may no longer have.
func (d *Dispatcher) endpoint(topic *registry.Topic) (*callback.Endpoint, error) {
	snap := d.opts.Topics()
	own := snap.TopicOrNamespace(topic.Name)
	if own == nil {
		own = topic
	}
	return d.endpoints.of(own, max(minEndpoints, snap.Topics.Len()), d.opts.Logger)
}

func (e *endpoints) of(t *registry.Topic, most int, log *slog.Logger) (*callback.Endpoint, error) {
	e.mu.RLock()
	c, ok := e.byName[t.Name]
	e.mu.RUnlock()
	if ok && c.topic == t {
		return c.endpoint, c.err
	}
	ep, err := callback.CompileEndpoint(callback.EndpointSpec{
		URL: t.CallbackURL, Method: t.Method, ContentType: t.ContentType, Headers: t.Headers, Fixed: t.Seals,
		RetryIf: t.RetryIf, Secrets: t.Secrets, Dialect: t.Dialect, CloudEvents: t.CloudEvents,
	})
	if err != nil {
		err = fmt.Errorf("topic %s cannot be called: %w", t.Name, err)
		log.Error("cannot call topic; its jobs wait until it is corrected", "topic", t.Name, "error", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byName == nil || len(e.byName) > most {
		e.byName = map[string]compiled{}
	}
	e.byName[t.Name] = compiled{t, ep, err}
	return ep, err
}

// A topic that was just registered may have jobs before this process has read it. So before the dispatcher treats a
// topic as unknown, it checks for it every topicPoll during topicWait.
const (
	topicWait = 2 * time.Second
	topicPoll = 5 * time.Millisecond
)

// topic returns nil for a topic that does not exist. It waits for an unknown topic once per revision of the registry.
// Redis gives the jobs of a resumed topic out before this process may have read that: without a check, they would be
// released, and the topic avoided.
func (d *Dispatcher) topic(name string) *registry.Topic {
	snap := d.opts.Topics()
	t := snap.Topic(name)
	if t != nil && !t.IsCalled() {
		d.opts.Refresh(d.calls)
		snap = d.opts.Topics()
		t = snap.Topic(name)
	}
	if t != nil || d.unknown.at(name, snap.Revision) != nil {
		return t
	}
	deadline := time.Now().Add(topicWait)
	for ; time.Now().Before(deadline) && d.calls.Err() == nil; pause.For(d.calls, topicPoll) {
		d.opts.Refresh(d.calls)
		if t := d.opts.Topics().Topic(name); t != nil {
			return t
		}
	}
	d.unknown.store(name, unknown{revision: d.opts.Topics().Revision})
	return nil
}

// minEndpoints is how many endpoints the cache may have, if the registry has fewer topics. The cache keeps those of
// deleted topics; above the larger number it is emptied.
const minEndpoints = 1000
