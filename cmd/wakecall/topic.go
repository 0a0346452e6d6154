package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry/topicfile"
)

func (p *program) topicCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "topic", GroupID: groupUse, Short: "list, show, apply, pause, resume and delete topics",
	}, p.topicListCommand(), p.topicShowCommand(), p.topicApplyCommand(), p.topicDeleteCommand(),
		p.topicPauseCommand(), p.topicResumeCommand())
}

func (p *program) topicListCommand() *cobra.Command {
	var f client.TopicFilter
	cmd := &cobra.Command{
		Use: "list", Short: "list the topics", Args: noArgs,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			topics, err := c.FilteredTopics(ctx, f)
			if err != nil {
				return err
			}
			if topics == nil {
				topics = []client.Topic{}
			}
			return p.show(topics, func(w io.Writer) error {
				if len(topics) == 0 && f != (client.TopicFilter{}) {
					_, err := fmt.Fprintln(w, "no topic matches --prefix, --state and --owner")
					return err
				}
				return p.topicTable(w, topics)
			})
		}),
	}
	cmd.Flags().StringVar(&f.Prefix, "prefix", "", "only topics whose name begins with `PREFIX`")
	cmd.Flags().StringVar(&f.State, "state", "", "only topics in this state: active, paused or offline")
	cmd.Flags().StringVar(&f.Owner, "owner", "", "only topics of this owner")
	complete(cmd, "state", "active", "paused", "offline")
	return p.addClientFlags(cmd)
}

func (p *program) topicTable(w io.Writer, topics []client.Topic) error {
	if len(topics) == 0 {
		_, err := fmt.Fprintln(w, "there are no topics yet; `wakecall topic apply -f FILE` creates some")
		return err
	}
	titles := []string{"NAME", "STATE", "PRIORITY", "TTR", "ATTEMPTS", "CALLBACK", "TITLE"}
	return table(w, titles, topics, func(t client.Topic) []string {
		ttr := printable.ShortDuration(t.TTR.Std())
		return []string{t.Name, p.stateOf(&t), t.Priority, ttr, t.MaxAttempts.String(), t.CallbackURL, t.Title}
	})
}

func (p *program) topicShowCommand() *cobra.Command {
	return p.addClientFlags(&cobra.Command{
		Use: "show TOPIC", Short: "show a topic, as YAML for apply",
		Args: exactArgs("TOPIC"), ValidArgsFunction: p.completeTopics,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			topic, err := c.Topic(ctx, args[0])
			if err != nil {
				return hintTopics(err)
			}
			return p.show(topic, func(w io.Writer) error { return topicYAML(w, *topic) })
		}),
	})
}

func (p *program) topicPauseCommand() *cobra.Command {
	reason, until := "", ""
	cmd := p.onTopic("pause", "call no jobs of a topic until it is resumed; it accepts pushes",
		func(ctx context.Context, c *client.Client, name string) (*client.Topic, error) {
			at, err := p.parseEnd("until", until)
			if err != nil {
				return nil, err
			}
			return c.PauseTopic(ctx, name, reason, at)
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the others on call; jobs that wait for it show it")
	cmd.Flags().StringVar(&until, "until", "",
		"resume it at this `TIME`: RFC 3339, Unix milliseconds, or in a duration such as 2h")
	return cmd
}

func (p *program) topicResumeCommand() *cobra.Command {
	return p.onTopic("resume", "call the jobs of a paused or offline topic again",
		func(ctx context.Context, c *client.Client, name string) (*client.Topic, error) {
			return c.ResumeTopic(ctx, name)
		})
}

func (p *program) onTopic(
	name, short string, change func(ctx context.Context, c *client.Client, name string) (*client.Topic, error),
) *cobra.Command {
	return p.addClientFlags(&cobra.Command{
		Use: name + " TOPIC", Short: short, Args: exactArgs("TOPIC"), ValidArgsFunction: p.completeTopics,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			t, err := change(ctx, c, args[0])
			if err != nil {
				return hintTopics(err)
			}
			return p.show(t, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "topic %s is %s\n", printable.Line(args[0]), p.stateOf(t))
				return err
			})
		}),
	})
}

// stateOf returns the state of a topic, with the end of a pause.
func (p *program) stateOf(t *client.Topic) string {
	if t.PausedUntil == nil {
		return printable.Line(t.State)
	}
	return printable.Line(t.State) + " until " + describe.Instant(*t.PausedUntil, p.now())
}

// hintTopics adds to the error about an unknown topic how to list the topics.
func hintTopics(err error) error {
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%w. `wakecall topic list` lists them", err)
	}
	return err
}

// topicYAML writes a topic in the format that apply reads, without the times that the registry adds.
func topicYAML(w io.Writer, t client.Topic) error {
	b, err := json.Marshal(t)
	if err == nil {
		b, err = topicfile.Format(b)
	}
	return writeYAML(w, "topic", b, err)
}

func writeYAML(w io.Writer, what string, text []byte, err error) error {
	if err != nil {
		return fmt.Errorf("write the %s as YAML: %w", what, err)
	}
	_, err = io.WriteString(w, printable.Lines(string(text)))
	return err
}

func (p *program) topicDeleteCommand() *cobra.Command {
	var with client.TopicDeletion
	cmd := &cobra.Command{
		Use: "delete TOPIC", Short: "delete a topic", Args: exactArgs("TOPIC"), ValidArgsFunction: p.completeTopics,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := deleteTopic(ctx, c, args[0], with); err != nil {
				return hintTopics(err)
			}
			return p.say(map[string]any{"topic": args[0], "deleted": true}, "deleted topic %s", printable.Line(args[0]))
		}),
	}
	cmd.Flags().BoolVar(&with.Jobs, "drop-jobs", false,
		"also delete its jobs; a topic with jobs is not deleted otherwise")
	cmd.Flags().BoolVar(&with.Schedules, "force", false,
		"also delete the schedules that use it; a topic with schedules is not deleted otherwise")
	return p.addClientFlags(cmd)
}

func deleteTopic(ctx context.Context, c *client.Client, name string, with client.TopicDeletion) error {
	err := c.DeleteTopicWith(ctx, name, with)
	refused, _ := errors.AsType[*client.Error](err)
	switch {
	case refused != nil && refused.Code == client.CodeTopicInUse:
		return fmt.Errorf("%w. `wakecall topic delete --force` deletes them too", err)
	case errors.Is(err, client.ErrConflict):
		return fmt.Errorf("%w. --drop-jobs deletes them too", err)
	}
	return err
}
