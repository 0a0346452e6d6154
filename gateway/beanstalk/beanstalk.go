package beanstalk

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Queue is the part of a queue.Queue that the gateway needs.
type Queue interface {
	gateway.FinderQueue
	Push(ctx context.Context, p store.Push) store.Result
	End(ctx context.Context, list []store.End) []store.Ended
	List(ctx context.Context, topic string, state store.State, cursor string, limit int) ([]store.Job, string, error)
	First(ctx context.Context, topic string) ([]store.Job, error)
	Stats(ctx context.Context, topics []string) (map[string]store.Stats, error)
	RunNow(ctx context.Context, topic, id string, m store.Match) (*store.Job, error)
	TakeByID(ctx context.Context, topic, id string) (*store.Job, error)
}

// A Gateway serves the protocol.
type Gateway struct {
	*gateway.Endpoint
	queue   Queue
	workers gateway.Workers
	finder  *gateway.Finder
	ids     ids
	topics  func() *registry.Snapshot
	tubes   *tubes
	maxBody int
	version string
	started time.Time
	counts  counts
	reading chan struct{} // one slot, for the connection that reads all tubes
}

// counts are the counters for the statistics.
type counts struct {
	commands                          [len(commandNames)]atomic.Uint64 // by position in commandNames
	timeouts, jobs, connections       atomic.Uint64
	open, producers, workers, waiting atomic.Int64
}

// New returns a gateway that accepts jobs of up to maxBody bytes.
func New(e *gateway.Endpoint, q Queue, w gateway.Workers, r gateway.Registry, maxBody int, version string) *Gateway {
	return &Gateway{
		Endpoint: e, queue: q, workers: w, finder: gateway.NewFinder(q, Namespace), ids: ids{registry: r},
		topics: r.Snapshot, tubes: newTubes(), maxBody: maxBody, version: version, started: time.Now(),
		reading: make(chan struct{}, 1),
	}
}

// Serve serves a listener until ctx is done.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	serving, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { g.ids.keepReserve(serving) })
	defer func() { stop(); background.Wait() }()
	return g.TCP(ctx, l, g.connection)
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}
