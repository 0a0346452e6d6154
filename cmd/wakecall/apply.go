package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/topicfile"
)

const aboutApply = `Creates and changes topics to match the files. A file has topics in YAML or JSON: one topic,
several documents, or a list. Each topic has a name and the fields of the API. A missing field
takes its default, except secrets, which are kept unless the file sets them.

All topics are checked before the first is changed. They are changed in batches of up to 1,000, each of them as a whole
or not at all. Topics that are in no file are kept, unless --prune is set.`

func (p *program) topicApplyCommand() *cobra.Command {
	var ap apply
	var files []string
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "create and change topics to match a file", Long: aboutApply, Args: noArgs,
		SuggestFor: []string{"add", "create", "edit", "put", "set"},
		Example: `  wakecall topic apply -f topics.yaml
  wakecall topic show order.close | sed s/active/paused/ | wakecall topic apply -f -`,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if len(files) == 0 {
				return usagef("-f FILE is required; - reads standard input")
			}
			wanted, err := p.readTopics(files)
			if err != nil {
				return err
			}
			ap.api = c
			changes, err := ap.run(ctx, wanted)
			if showErr := p.showChanges(changes, ap.dryRun); err == nil {
				err = showErr
			}
			return err
		}),
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`FILE` of topics, - for standard input; may be repeated")
	cmd.Flags().BoolVar(&ap.dryRun, "dry-run", false, "show what would change, and change nothing")
	cmd.Flags().BoolVar(&ap.prune, "prune", false, "delete the topics that are in no file")
	cmd.Flags().BoolVar(&ap.drop, "drop-jobs", false, "with --prune: also delete their jobs")
	return p.addClientFlags(cmd)
}

// change describes what apply did to a topic.
type change struct {
	Topic  string   `json:"topic"`
	Done   string   `json:"done"` // created, changed, unchanged or deleted
	Fields []string `json:"fields,omitempty"`
}

// apply changes the server's topics to match the files.
type apply struct {
	api                 *client.Client
	dryRun, prune, drop bool
}

func (ap *apply) run(ctx context.Context, wanted []topicfile.Topic) ([]change, error) {
	list, err := ap.api.Topics(ctx)
	if err != nil {
		return nil, err
	}
	current := map[string]client.Topic{}
	for _, t := range list {
		current[t.Name] = t
	}
	changes := make([]change, len(wanted))
	b := batch{api: ap.api}
	for i, w := range wanted {
		ch, err := compare(w, current)
		if err != nil {
			return nil, fmt.Errorf("topic %s: %w", w.Name, err)
		}
		changes[i] = ch
		delete(current, w.Name)
	}
	for i, w := range wanted {
		if ap.dryRun || changes[i].Done == "unchanged" {
			continue
		}
		if err := b.add(ctx, w, i); err != nil {
			return changes[:b.sent], err
		}
	}
	if err := b.send(ctx); err != nil {
		return changes[:b.sent], err
	}
	if !ap.prune {
		return changes, nil
	}
	for _, t := range list {
		if _, left := current[t.Name]; !left {
			continue
		}
		if err := ap.remove(ctx, t.Name); err != nil {
			return changes, fmt.Errorf("topic %s: %w", t.Name, err)
		}
		changes = append(changes, change{Topic: t.Name, Done: "deleted"})
	}
	return changes, nil
}

// compare returns what has to be done for a topic in the files.
func compare(w topicfile.Topic, current map[string]client.Topic) (ch change, err error) {
	ch = change{Topic: w.Name, Done: "created"}
	t, ok := current[w.Name]
	if !ok {
		return ch, nil
	}
	ch.Done = "changed"
	if ch.Fields, err = differences(w, t); len(ch.Fields) == 0 {
		ch.Done = "unchanged"
	}
	return ch, err
}

// batch collects topics for one request.
type batch struct {
	api    *client.Client
	topics []json.RawMessage
	bytes  int
	sent   int // topics of the files that are up to date
}

// batchBytes leaves room in a request for JSON escapes.
const batchBytes = client.MaxTopicsBytes / 4

// add adds the topic at an index in the files, and first sends the batch if the request is full.
func (b *batch) add(ctx context.Context, w topicfile.Topic, number int) error {
	if len(b.topics) == client.MaxTopics || b.bytes+len(w.JSON) > batchBytes {
		if err := b.send(ctx); err != nil {
			return err
		}
		b.sent = number
	}
	named := fmt.Appendf(nil, `{"name":%q`, w.Name)
	if len(w.JSON) > len("{}") {
		named = append(named, ',')
	}
	b.topics = append(b.topics, append(named, w.JSON[1:]...))
	b.bytes += len(w.JSON)
	return nil
}

func (b *batch) send(ctx context.Context) error {
	if len(b.topics) == 0 {
		return nil
	}
	_, err := b.api.PutTopics(ctx, b.topics)
	b.topics, b.bytes = nil, 0
	return err
}

func (ap *apply) remove(ctx context.Context, name string) error {
	if ap.dryRun {
		return nil
	}
	return deleteTopic(ctx, ap.api, name, client.TopicDeletion{Jobs: ap.drop})
}

// differences returns the fields in which the server's topic differs from the file's. Secrets in a file always count as
// different, because the API does not show the server's.
func differences(w topicfile.Topic, t client.Topic) ([]string, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	current, err := registry.DecodeTopic(w.Name, b)
	if err != nil {
		return nil, fmt.Errorf("read the server's topic: %w", err)
	}
	fields := registry.DifferingFields(current, w.Topic)
	if w.HasSecrets {
		fields = append(fields, "secrets")
		slices.Sort(fields)
	}
	return fields, nil
}

// readTopics reads and checks all files.
func (p *program) readTopics(files []string) ([]topicfile.Topic, error) {
	var all []topicfile.Topic
	var errs []error
	seen := map[string]string{}
	for _, file := range files {
		topics, err := p.readTopicFile(file)
		errs = append(errs, err)
		for _, t := range topics {
			if first, ok := seen[t.Name]; ok {
				errs = append(errs, fmt.Errorf("%s: topic %s is already in %s", file, t.Name, first))
			}
			seen[t.Name] = file
		}
		all = append(all, topics...)
	}
	return all, errors.Join(errs...)
}

func (p *program) readTopicFile(file string) ([]topicfile.Topic, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(p.in)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read topics: %w", err)
	}
	topics, err := topicfile.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return topics, nil
}

func (p *program) showChanges(changes []change, dryRun bool) error {
	if changes == nil {
		changes = []change{}
	}
	return p.show(changes, func(w io.Writer) error {
		would := ""
		if dryRun {
			would = "would be "
		}
		for _, ch := range changes {
			what := ch.Done
			if what != "unchanged" {
				what = would + what
			}
			if len(ch.Fields) > 0 {
				what += " (" + strings.Join(ch.Fields, ", ") + ")"
			}
			if _, err := fmt.Fprintf(w, "%s %s\n", printable.Line(ch.Topic), printable.Line(what)); err != nil {
				return err
			}
		}
		return nil
	})
}
