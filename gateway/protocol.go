package gateway

import (
	"context"
	"net"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// A Protocol is one old system. Package app lists all of them.
type Protocol struct {
	Name string     // in the configuration, the journal, the metrics, the log and the command line
	Keys []conf.Key // configuration keys, below gateways.NAME
	// Servers returns what its listeners serve, by configuration key. They share the Endpoint.
	Servers func(e *Endpoint, p *Process) map[string]Prepare
	// Check returns an error if a listener could not serve with the configuration. It is nil if that says it all.
	Check  func(setting func(key string) string) error
	Import importer.Command
	// Dialect returns the form of the callbacks of topics whose dialect is Name. setting returns the value of a
	// configuration key. It is nil if the system's clients only pull.
	Dialect func(setting func(key string) string) callback.Dialect
}

// Serve serves a listener until ctx is done, and closes it.
type Serve func(ctx context.Context, l net.Listener) error

// Prepare reads and creates what a listener needs, before anything is accepted. After an error it is called again.
type Prepare func(ctx context.Context) (Serve, error)

// Prepare is for listeners that need nothing.
func (s Serve) Prepare(context.Context) (Serve, error) { return s, nil }

// Process is what a protocol needs from the process that serves it.
type Process struct {
	Queue    *queue.Queue
	Jobs     Jobs // the queue, backed by the spool if there is one
	Workers  *pull.Hub
	Registry *registry.Registry
	Healthy  func() error               // returns the journal's error
	Refused  func(topic, reason string) // counts a push that was refused before it came to Jobs
	Setting  func(key string) string    // returns the value of a configuration key
	MaxBody  int64                      // limit of a job's body in bytes
	Version  string
}

// Jobs is the part of a queue.Queue that works through the spool, too.
type Jobs interface {
	Push(ctx context.Context, p store.Push) store.Result
	Get(ctx context.Context, topic, id string, also ...store.State) (*store.Job, error)
	Delete(ctx context.Context, topic, id string, m store.Match) error
}

// Registry is the part of the registry that protocols with their own settings need.
type Registry interface {
	Snapshot() *registry.Snapshot
	EditSetting(ctx context.Context, actor, name string, value any, edit func() error) error
}
