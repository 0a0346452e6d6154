package gateway

import (
	"cmp"
	"context"
	"errors"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// FinderQueue is the part of a queue.Queue that a Finder needs.
type FinderQueue interface {
	Get(ctx context.Context, topic, id string, also ...store.State) (*store.Job, error)
	Find(ctx context.Context, refs []store.Ref) ([]*store.Job, error)
	Members(ctx context.Context, namespace string) ([]string, error)
}

// A Finder finds the topic of an id in a namespace. It serves protocols whose ids are unique across all topics, and
// whose clients send only the id. In Wakecall ids are unique per topic. Its methods may be called from any goroutine.
type Finder struct {
	queue     FinderQueue
	namespace string
	// hints holds the topics where ids were last seen. They may be outdated: another host may have pushed the id to
	// another topic.
	hints *lru.Cache[string, string]
}

// maxHints bounds the memory of hints to about 10 MB.
const maxHints = 50_000

// NewFinder returns a Finder.
func NewFinder(q FinderQueue, namespace string) *Finder {
	hints, err := lru.New[string, string](maxHints)
	if err != nil { // fails only if the size is not positive
		panic(err)
	}
	return &Finder{queue: q, namespace: namespace, hints: hints}
}

// Met records the topic of an id.
func (f *Finder) Met(id, topic string) { f.hints.Add(id, topic) }

// Search returns the topics that have a job with an id. With a *queue.PartialError, they come from the shards that
// answered.
func (f *Finder) Search(ctx context.Context, id string) (topics []string, err error) {
	members, missed := f.queue.Members(ctx, f.namespace)
	if missed != nil && !queue.IsPartial(missed) {
		return nil, missed
	}
	refs := make([]store.Ref, len(members))
	for i, topic := range members {
		refs[i] = store.Ref{Topic: topic, ID: id}
	}
	jobs, err := store.Live(f.queue.Find(ctx, refs)) // the old systems forget finished jobs
	for _, job := range jobs {
		if job != nil {
			topics = append(topics, job.Topic)
		}
	}
	return topics, cmp.Or(err, missed)
}

// Try calls do with topics that may have a job with an id, until do finds the job: first with the topic where the id
// was last seen, then with the results of a search.
func (f *Finder) Try(ctx context.Context, id string, do func(topic string) (found bool, err error)) (bool, error) {
	if topic, ok := f.hints.Get(id); ok {
		if found, err := do(topic); found || err != nil {
			return found, err
		}
		f.hints.Remove(id)
	}
	topics, missed := f.Search(ctx, id)
	for _, topic := range topics {
		if found, err := do(topic); found || err != nil {
			return found, err
		}
	}
	return false, missed
}

// Get returns the job with an id, or nil.
func (f *Finder) Get(ctx context.Context, id string) (job *store.Job, err error) {
	_, err = f.Try(ctx, id, func(topic string) (bool, error) {
		found, err := f.queue.Get(ctx, topic, id)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		job = found
		return true, err
	})
	return job, err
}
