package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/log/printable"
)

// topicStats are the counts of one topic.
type topicStats struct {
	Topic string `json:"topic"`
	client.Stats
}

func (p *program) statsCommand() *cobra.Command {
	return p.addClientFlags(&cobra.Command{
		Use: "stats [TOPIC]", GroupID: groupUse, Short: "count the jobs of a topic, or of all topics",
		ValidArgsFunction: p.completeTopics,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exactArgs("TOPIC")(cmd, args)
		},
		RunE: p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) == 1 {
				s, err := c.Stats(ctx, args[0])
				if err != nil {
					return hintTopics(err)
				}
				one := topicStats{args[0], *s}
				return p.show(one, func(w io.Writer) error { return statsTable(w, []topicStats{one}) })
			}
			all, err := allStats(ctx, c)
			if err != nil {
				return err
			}
			return p.show(all, func(w io.Writer) error { return statsTable(w, all) })
		}),
	})
}

// allStats reads the counts of every topic, a few at a time. It omits topics that are deleted meanwhile.
func allStats(ctx context.Context, c *client.Client) ([]topicStats, error) {
	topics, err := c.Topics(ctx)
	if err != nil {
		return nil, err
	}
	const workers = 8
	stats := make([]*client.Stats, len(topics))
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(topics) && errs[w] == nil; i += workers {
				stats[i], errs[w] = c.Stats(ctx, topics[i].Name)
				if errors.Is(errs[w], client.ErrNotFound) {
					errs[w] = nil
				}
			}
		})
	}
	wg.Wait()
	all := []topicStats{}
	for i, s := range stats {
		if s != nil {
			all = append(all, topicStats{topics[i].Name, *s})
		}
	}
	return all, errors.Join(errs...)
}

func statsTable(w io.Writer, stats []topicStats) error {
	rows := [][]string{{"TOPIC", "DELAYED", "READY", "RUNNING", "DEAD", "OLDEST READY"}}
	var sum client.Stats
	for _, s := range stats {
		rows = append(rows, statsRow(s.Topic, s.Stats))
		sum.Delayed += s.Delayed
		sum.Ready += s.Ready
		sum.Running += s.Running
		sum.Dead += s.Dead
		sum.OldestReadyMS = max(sum.OldestReadyMS, s.OldestReadyMS)
	}
	if len(stats) > 1 {
		rows = append(rows, statsRow(fmt.Sprintf("(all %d)", len(stats)), sum))
	}
	return columns(w, rows)
}

func statsRow(name string, s client.Stats) []string {
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	oldest := ""
	if s.Ready > 0 {
		oldest = printable.Duration(time.Duration(s.OldestReadyMS) * time.Millisecond)
	}
	return []string{name, n(s.Delayed), n(s.Ready), n(s.Running), n(s.Dead), oldest}
}
