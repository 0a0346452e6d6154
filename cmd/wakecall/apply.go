package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/topicfile"
)

const aboutApply = `Creates and changes topics and schedules to match the files. A file has them in YAML or JSON: one,
several documents, or a list. Each topic has a name and the fields of the API, each schedule its name as schedule.
A missing field takes its default, except secrets, which are kept unless the file sets them.

All of them are checked before the first is changed. Topics are changed in batches of up to 1,000, each of them as a
whole or not at all; then schedules, one by one. What is in no file is kept, unless --prune is set: that deletes topics
if the files have at least one, and schedules if the files have at least one.`

func (p *program) topicApplyCommand() *cobra.Command {
	return p.applyCommand(`  wakecall topic apply -f topics.yaml
  wakecall topic show order.close | sed s/active/paused/ | wakecall topic apply -f -`)
}

func (p *program) applyCommand(example string) *cobra.Command {
	var ap apply
	var files []string
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "create and change topics and schedules to match a file", Long: aboutApply,
		Args: noArgs, SuggestFor: []string{"add", "create", "edit", "put", "set"}, Example: example,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if len(files) == 0 {
				return usagef("-f FILE is required; - reads standard input")
			}
			wanted, err := p.readFiles(files)
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
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil,
		"`FILE` of topics and schedules, - for standard input; may be repeated")
	cmd.Flags().BoolVar(&ap.dryRun, "dry-run", false, "show what would change, and change nothing")
	cmd.Flags().BoolVar(&ap.prune, "prune", false, "delete the topics and schedules that are in no file")
	cmd.Flags().BoolVar(&ap.drop, "drop-jobs", false, "with --prune: also delete the jobs of these topics")
	return p.addClientFlags(cmd)
}

// change describes what apply did to a topic or a schedule.
type change struct {
	Topic    string   `json:"topic,omitempty"`
	Schedule string   `json:"schedule,omitempty"`
	Done     string   `json:"done"` // created, changed, unchanged or deleted
	Fields   []string `json:"fields,omitempty"`
}

// what returns the topic or the schedule in errors.
func (c *change) what() string {
	if c.Schedule != "" {
		return "schedule " + c.Schedule
	}
	return "topic " + c.Topic
}

// apply changes the server's topics and schedules to match the files.
type apply struct {
	api                 *client.Client
	dryRun, prune, drop bool
}

// run first compares everything, then changes topics before the schedules that use them, and deletes the other way
// round. It returns what it has done, or in a dry run would do.
func (ap *apply) run(ctx context.Context, wanted topicfile.File) ([]change, error) {
	topics, goneTopics, err := ap.compareTopics(ctx, wanted.Topics)
	if err != nil {
		return nil, err
	}
	schedules, goneSchedules, err := ap.compareSchedules(ctx, wanted.Schedules, goneTopics)
	if err != nil {
		return nil, err
	}
	if ap.dryRun {
		return slices.Concat(topics, schedules, goneSchedules, goneTopics), nil
	}
	done, err := ap.putTopics(ctx, wanted.Topics, topics)
	if err != nil {
		return done, err
	}
	for i, ch := range schedules {
		if ch.Done != "unchanged" {
			if _, _, err := ap.api.PutScheduleJSON(ctx, ch.Schedule, wanted.Schedules[i].JSON); err != nil {
				return done, fmt.Errorf("%s: %w", ch.what(), err)
			}
		}
		done = append(done, ch)
	}
	for _, ch := range slices.Concat(goneSchedules, goneTopics) {
		if err := ap.remove(ctx, ch); err != nil {
			return done, fmt.Errorf("%s: %w", ch.what(), err)
		}
		done = append(done, ch)
	}
	return done, nil
}

func (ap *apply) remove(ctx context.Context, ch change) error {
	if ch.Schedule != "" {
		return ap.api.DeleteSchedule(ctx, ch.Schedule)
	}
	return deleteTopic(ctx, ap.api, ch.Topic, client.TopicDeletion{Jobs: ap.drop})
}

// compareTopics returns what has to be done for the topics in the files, and which topics --prune deletes.
func (ap *apply) compareTopics(ctx context.Context, wanted []topicfile.Topic) (changes, gone []change, err error) {
	if len(wanted) == 0 {
		return nil, nil, nil
	}
	list, err := ap.api.Topics(ctx)
	if err != nil {
		return nil, nil, err
	}
	current := map[string]client.Topic{}
	for _, t := range list {
		current[t.Name] = t
	}
	return compare(wanted, current, topicDiffers, func(name string) change { return change{Topic: name} }, ap.prune)
}

// compare returns what has to be done for the topics or schedules in the files, and with prune which of the current
// ones are deleted: those that are in no file, if the files have any.
func compare[T, C any](
	wanted []topicfile.Object[T], current map[string]C, differ func(topicfile.Object[T], C) ([]string, error),
	named func(name string) change, prune bool,
) (changes, gone []change, err error) {
	kept := map[string]bool{}
	for _, w := range wanted {
		ch := named(w.Name)
		ch.Done = "created"
		if c, is := current[w.Name]; is {
			if ch.Fields, err = differ(w, c); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", ch.what(), err)
			}
			ch.Done = "changed"
			if len(ch.Fields) == 0 {
				ch.Done = "unchanged"
			}
		}
		changes, kept[w.Name] = append(changes, ch), true
	}
	if !prune || len(wanted) == 0 {
		return changes, nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		if !kept[name] {
			ch := named(name)
			ch.Done = "deleted"
			gone = append(gone, ch)
		}
	}
	return changes, gone, nil
}

// putTopics sends the topics that have changed, and returns which are up to date then.
func (ap *apply) putTopics(ctx context.Context, wanted []topicfile.Topic, changes []change) ([]change, error) {
	b := batch{api: ap.api}
	for i, w := range wanted {
		if changes[i].Done == "unchanged" {
			continue
		}
		if err := b.add(ctx, w, i); err != nil {
			return changes[:b.sent], err
		}
	}
	if err := b.send(ctx); err != nil {
		return changes[:b.sent], err
	}
	return slices.Clone(changes), nil
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

// topicDiffers returns the fields in which the server's topic differs from the file's. Secrets in a file always count
// as different, because the API does not show the server's.
func topicDiffers(w topicfile.Topic, t client.Topic) ([]string, error) {
	current, err := asStored("topic", w.Name, t, registry.DecodeTopic)
	if err != nil {
		return nil, err
	}
	fields := registry.DifferingFields(current, w.Is)
	if w.Is.Secrets != nil {
		fields = append(fields, "secrets")
		slices.Sort(fields)
	}
	return fields, nil
}

// asStored returns the server's topic or schedule as the registry has it.
func asStored[T any](
	what, name string, of any, decode func(name string, data []byte) (*T, error),
) (*T, error) {
	b, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	is, err := decode(name, b)
	if err != nil {
		return nil, fmt.Errorf("read the server's %s: %w", what, err)
	}
	return is, nil
}

// readFiles reads and checks all files.
func (p *program) readFiles(files []string) (all topicfile.File, err error) {
	var errs []error
	seen := map[string]string{}
	once := func(what, file string) {
		if first, ok := seen[what]; ok {
			errs = append(errs, fmt.Errorf("%s: %s is already in %s", file, what, first))
		}
		seen[what] = file
	}
	for _, file := range files {
		found, err := p.readFile(file)
		errs = append(errs, err)
		for _, t := range found.Topics {
			once("topic "+t.Name, file)
		}
		for _, s := range found.Schedules {
			once("schedule "+s.Name, file)
		}
		all.Topics, all.Schedules = append(all.Topics, found.Topics...), append(all.Schedules, found.Schedules...)
	}
	return all, errors.Join(errs...)
}

func (p *program) readFile(file string) (found topicfile.File, err error) {
	var data []byte
	if file == "-" {
		data, err = io.ReadAll(p.in)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return found, fmt.Errorf("read topics and schedules: %w", err)
	}
	if found, err = topicfile.Parse(data); err != nil {
		return found, fmt.Errorf("%s: %w", file, err)
	}
	return found, nil
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
			name := strings.TrimPrefix(ch.what(), "topic ")
			if _, err := fmt.Fprintf(w, "%s %s\n", printable.Line(name), printable.Line(what)); err != nil {
				return err
			}
		}
		return nil
	})
}
