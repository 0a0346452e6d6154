package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
)

func (p *program) searchCommand() *cobra.Command {
	topic := ""
	cmd := &cobra.Command{
		Use: "search ID", GroupID: groupUse, Short: "find what is known of an id, in the journals of all hosts",
		Args: exactArgs("ID"),
	}
	cmd.Flags().StringVar(&topic, "topic", "", "only jobs of `TOPIC`")
	completeBy(cmd, "topic", p.completeMoreTopics)
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := c.Search(ctx, topic, args[0], func(r *client.SearchReport) {
			fmt.Fprintf(cmd.ErrOrStderr(), "searched %s\n", searched(r))
		})
		if err != nil {
			return err
		}
		if len(r.Stored) == 0 {
			shards, err := c.Shards(ctx)
			if err != nil {
				return err
			}
			for _, s := range describe.UnreachableShards(shards) {
				fmt.Fprintln(cmd.ErrOrStderr(), "not searched:", printable.Line(s))
			}
		}
		return p.show(r, func(w io.Writer) error { return p.showSearch(w, args[0], r) })
	})
	return p.addClientFlags(cmd)
}

// searched returns the progress of a search.
func searched(r *client.SearchReport) string {
	read, total := int64(0), int64(0)
	for _, h := range r.Hosts {
		read, total = read+h.Read, total+h.Total
	}
	return fmt.Sprintf("%s of %s of the journals, hosts: %d", mebibytes(read), mebibytes(total), len(r.Hosts))
}

func mebibytes(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB" }

func (p *program) showSearch(w io.Writer, id string, r *client.SearchReport) error {
	for _, j := range r.Stored {
		fmt.Fprintf(w, "%s of topic %s is %s: %s\n", printable.Line(j.ID), printable.Line(j.Topic), j.State,
			printable.Command("wakecall get", j.Topic, j.ID))
	}
	for _, j := range r.Jobs {
		fmt.Fprintf(w, "\n%s of topic %s, %s\n", printable.Line(j.ID), printable.Line(j.Topic), describe.End(j.Ended))
		titles := []string{"AT", "EVENT", "RESULT", "BY", "HOST"}
		if err := table(w, titles, j.Events, eventRow); err != nil {
			return err
		}
	}
	if len(r.Stored)+len(r.Jobs) == 0 {
		fmt.Fprintf(w, "nothing is known of %s\n", printable.Line(id))
	}
	fmt.Fprintf(w, "\nsearched %s\n", searched(r))
	for _, h := range r.Hosts {
		if h.Error != "" {
			fmt.Fprintf(w, "journal of %s: %s\n", printable.Line(h.Name), printable.Line(h.Error))
		}
	}
	return nil
}

func eventRow(e client.Event) []string {
	at, what, result := e.At, e.What, ""
	if e.StartedAt != nil {
		at = *e.StartedAt
	}
	if e.N > 0 {
		what = fmt.Sprint("attempt ", e.N)
	}
	if e.Attempt {
		var parts []string
		if e.Status > 0 {
			parts = append(parts, strconv.Itoa(e.Status))
		}
		for _, text := range []string{e.What, e.Reason, e.Error, e.Result} {
			if text != "" && text != "ok" {
				parts = append(parts, printable.Clip(text, clipAt))
			}
		}
		result = strings.Join(parts, ", ")
		if e.TookMS > 0 {
			result += " in " + printable.Duration(time.Duration(e.TookMS*float64(time.Millisecond)))
		}
	}
	if e.DueAt != nil {
		what += ", due " + e.DueAt.UTC().Format(describe.TimeLayout)
	}
	return []string{at.UTC().Format(describe.TimeLayout), what, result, strings.TrimSpace(e.By + " " + e.Via), e.Host}
}
