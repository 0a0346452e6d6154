package dispatcher

import (
	"fmt"
	"sync"

	"github.com/wakecall/wakecall/callback"
	"github.com/wakecall/wakecall/registry"
)

// endpoints keeps topics' endpoints compiled. A topic of a new snapshot is a new value, so pointers tell them apart.
type endpoints struct {
	mu     sync.RWMutex
	byName map[string]compiled
}

type compiled struct {
	topic    *registry.Topic
	endpoint *callback.Endpoint
	err      error
}

func (e *endpoints) of(t *registry.Topic) (*callback.Endpoint, error) {
	e.mu.RLock()
	c, ok := e.byName[t.Name]
	e.mu.RUnlock()
	if ok && c.topic == t {
		return c.endpoint, c.err
	}
	ep, err := callback.CompileEndpoint(callback.EndpointSpec{
		URL: t.CallbackURL, Method: t.Method, ContentType: t.ContentType, Headers: t.Headers, RetryIf: t.RetryIf, Secrets: t.Secrets,
	})
	if err != nil {
		err = fmt.Errorf("topic %s: %w", t.Name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byName == nil || len(e.byName) > maxEndpoints {
		e.byName = map[string]compiled{}
	}
	e.byName[t.Name] = compiled{t, ep, err}
	return ep, err
}

// maxEndpoints bounds what deleted topics leave behind; past it everything is compiled anew.
const maxEndpoints = 20000
