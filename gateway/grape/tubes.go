package grape

import (
	"context"
	"slices"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Namespace is the namespace with the settings of the tubes.
const Namespace = "grape.*"

const (
	title   = "Grape" // of the namespace
	setting = "grape"
	actor   = "gateway grape"
	prefix  = "grape."
)

// tubes lists the created tubes, in the order of their creation.
type tubes struct {
	Tubes []string `json:"tubes"`
}

// topicOf returns the topic with the jobs of a tube.
func topicOf(tube string) string { return prefix + registry.EscapeName(tube) }

// created returns the created tubes.
func (g *Gateway) created() ([]string, error) {
	list := tubes{Tubes: []string{}}
	_, err := g.registry.Snapshot().Setting(setting, &list)
	return list.Tubes, err
}

// tube returns the topic of the tube that a request names.
func (g *Gateway) tube(r *request) (topic string, err error) {
	name := r.query.Get("tube")
	if err := checkTube(name); err != nil {
		return "", err
	}
	return g.known(r.Context(), name)
}

func (g *Gateway) known(ctx context.Context, name string) (topic string, err error) {
	list, err := g.created()
	if err == nil && !slices.Contains(list, name) { // another process may just have created it
		g.registry.Refresh(ctx)
		list, err = g.created()
	}
	if err != nil {
		return "", err
	}
	if !slices.Contains(list, name) {
		return "", bad(codeUnknownTube, "unknown tube name '"+name+"'")
	}
	return topicOf(name), nil
}

func (g *Gateway) createTube(r *request) (any, error) {
	name := r.query.Get("tube")
	if err := checkTube(name); err != nil {
		return nil, err
	}
	return true, createTubes(r.Context(), g.registry, name)
}

// createTubes creates the tubes that do not exist.
func createTubes(ctx context.Context, r gateway.Registry, names ...string) error {
	return editTubes(ctx, r, func(list []string) []string {
		for _, name := range names {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
		return list
	})
}

// deleteTube deletes a tube and its jobs.
func (g *Gateway) deleteTube(r *request) (any, error) {
	name := r.query.Get("tube")
	topic, err := g.tube(r)
	if err != nil {
		return nil, err
	}
	return true, store.EndTopic(r.Context(), g.queue, topic, func() error {
		return editTubes(r.Context(), g.registry, func(list []string) []string {
			return slices.DeleteFunc(list, func(tube string) bool { return tube == name })
		})
	})
}

func editTubes(ctx context.Context, r gateway.Registry, edit func([]string) []string) error {
	var list tubes
	return r.EditSetting(ctx, actor, setting, &list, func() error {
		list.Tubes = edit(list.Tubes)
		return nil
	})
}

func (g *Gateway) listTubes(*request) (any, error) {
	list, err := g.created()
	return list, err
}

type tubeStats struct {
	DateTime        int64  `json:"dateTime"` // Unix ms
	TubeName        string `json:"tubeName"`
	DelayQueueSize  int64  `json:"delayQueueSize"` // delayed or ready
	RetainQueueSize int64  `json:"retainQueueSize"`
	FailedQueueSize int64  `json:"failedQueueSize"`
}

func (g *Gateway) allStats(r *request) (any, error) {
	list, err := g.created()
	if err != nil {
		return nil, err
	}
	return g.stats(r.Context(), list)
}

func (g *Gateway) statsOf(r *request) (any, error) {
	name := r.PathValue("name")
	if err := checkTube(name); err != nil {
		return nil, err
	}
	if _, err := g.known(r.Context(), name); err != nil {
		return nil, err
	}
	list, err := g.stats(r.Context(), []string{name})
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

func (g *Gateway) stats(ctx context.Context, names []string) ([]tubeStats, error) {
	topics := make([]string, len(names))
	for i, name := range names {
		topics[i] = topicOf(name)
	}
	counts := map[string]store.Stats{}
	if len(topics) > 0 {
		var err error
		if counts, err = g.queue.Stats(ctx, topics); err != nil {
			return nil, err
		}
	}
	list := make([]tubeStats, len(names))
	for i, name := range names {
		c := counts[topics[i]]
		list[i] = tubeStats{time.Now().UnixMilli(), name, c.Delayed + c.Ready, c.Running, c.Dead}
	}
	return list, nil
}
