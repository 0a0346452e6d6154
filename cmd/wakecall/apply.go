package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/printable"
	"github.com/wakecall/wakecall/registry"
)

const aboutApply = `Makes the registry's topics what the files say. A file holds topics as YAML (or JSON): one, several documents, or a list.
Each has a name and the fields of the API; what is missing takes its default, except secrets, which stay unless they are named.

Every topic is checked before the first is changed. Topics that no file names stay, unless --prune is given.`

func (a *cli) topicApplyCommand() *cobra.Command {
	var ap apply
	var files []string
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "make topics what a file says", Long: aboutApply, Args: noArgs,
		Example: `  wakecall topic apply -f topics.yaml
  wakecall topic show order.close | sed s/active/paused/ | wakecall topic apply -f -`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if len(files) == 0 {
				return usagef("-f FILE is missing; - is the standard input")
			}
			wanted, err := a.readTopics(files)
			if err != nil {
				return err
			}
			ap.api = c
			changes, err := ap.run(ctx, wanted)
			if showErr := a.showChanges(changes, ap.dryRun); err == nil {
				err = showErr
			}
			return err
		}),
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`FILE` of topics, - for the standard input; may be given several times")
	cmd.Flags().BoolVar(&ap.dryRun, "dry-run", false, "say what would be done, and do nothing")
	cmd.Flags().BoolVar(&ap.prune, "prune", false, "delete the topics that no file names")
	cmd.Flags().BoolVar(&ap.drop, "drop-jobs", false, "with --prune: delete their jobs, too")
	return a.addClientFlags(cmd)
}

// wantedTopic is a topic as a file has it.
type wantedTopic struct {
	name    string
	json    json.RawMessage // without the name, as the API takes it
	fields  map[string]any  // with all defaults, as the API shows it
	secrets bool            // the file names secrets, which the API does not show
}

// change is what apply did to a topic.
type change struct {
	Topic  string   `json:"topic"`
	Done   string   `json:"done"` // created, changed, unchanged or deleted
	Fields []string `json:"fields,omitempty"`
}

// apply makes the topics what is wanted.
type apply struct {
	api                 *client.Client
	dryRun, prune, drop bool
}

func (ap *apply) run(ctx context.Context, wanted []wantedTopic) ([]change, error) {
	list, err := ap.api.Topics(ctx)
	if err != nil {
		return nil, err
	}
	current := map[string]client.Topic{}
	for _, t := range list {
		current[t.Name] = t
	}
	var changes []change
	for _, w := range wanted {
		ch, err := ap.put(ctx, w, current)
		if err != nil {
			return changes, fmt.Errorf("topic %s: %w", w.name, err)
		}
		changes = append(changes, ch)
		delete(current, w.name)
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

func (ap *apply) put(ctx context.Context, w wantedTopic, current map[string]client.Topic) (change, error) {
	ch := change{Topic: w.name, Done: "created"}
	if t, ok := current[w.name]; ok {
		var err error
		if ch.Fields, err = differences(w, t); err != nil {
			return ch, err
		}
		ch.Done = "changed"
		if len(ch.Fields) == 0 {
			ch.Done = "unchanged"
			return ch, nil
		}
	}
	if ap.dryRun {
		return ch, nil
	}
	_, _, err := ap.api.PutTopicJSON(ctx, w.name, w.json)
	return ch, err
}

func (ap *apply) remove(ctx context.Context, name string) error {
	if ap.dryRun {
		return nil
	}
	return deleteTopic(ctx, ap.api, name, ap.drop)
}

// differences are the fields in which a topic is not what is wanted. Secrets that are named always count: what the registry has is
// not shown.
func differences(w wantedTopic, t client.Topic) ([]string, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	have, err := fieldsOf(registry.DecodeTopic(w.name, withoutOwn(b)))
	if err != nil {
		return nil, fmt.Errorf("the server's topic cannot be read: %w", err)
	}
	var fields []string
	for name, value := range w.fields {
		if !reflect.DeepEqual(value, have[name]) {
			fields = append(fields, name)
		}
	}
	if w.secrets {
		fields = append(fields, "secrets")
	}
	slices.Sort(fields)
	return fields, nil
}

// withoutOwn removes what the registry adds to a topic.
func withoutOwn(topic []byte) []byte {
	var m map[string]json.RawMessage
	if json.Unmarshal(topic, &m) != nil {
		return topic
	}
	for _, name := range []string{"name", "created_at", "updated_at", "secrets"} {
		delete(m, name)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return topic
	}
	return b
}

// fieldsOf is a topic as the values of its JSON fields, without those that are not compared. Empty lists and maps are one.
func fieldsOf(t *registry.Topic, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := json.Unmarshal(withoutOwn(b), &m); err != nil {
		return nil, err
	}
	for name, value := range m {
		switch v := value.(type) {
		case []any:
			if len(v) == 0 {
				m[name] = nil
			}
		case map[string]any:
			if len(v) == 0 {
				m[name] = nil
			}
		}
	}
	return m, nil
}

// readTopics reads and checks all files.
func (a *cli) readTopics(files []string) ([]wantedTopic, error) {
	var all []wantedTopic
	var errs []error
	seen := map[string]string{}
	for _, file := range files {
		topics, err := a.readTopicFile(file)
		errs = append(errs, err)
		for _, t := range topics {
			if first, ok := seen[t.name]; ok {
				errs = append(errs, fmt.Errorf("%s: topic %s stands in %s already", file, t.name, first))
			}
			seen[t.name] = file
		}
		all = append(all, topics...)
	}
	return all, errors.Join(errs...)
}

func (a *cli) readTopicFile(file string) ([]wantedTopic, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(a.in)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the topics: %w", err)
	}
	docs, err := parseTopics(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var topics []wantedTopic
	var errs []error
	for i, doc := range docs {
		t, err := newWanted(doc)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: topic %s: %w", file, firstOf(t.name, fmt.Sprintf("number %d", i+1)), err))
			continue
		}
		topics = append(topics, t)
	}
	return topics, errors.Join(errs...)
}

// parseTopics finds the topics in all documents, each of which is a topic or a list of them.
func parseTopics(data []byte) ([]map[string]any, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var topics []map[string]any
	for {
		var doc any
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.New(strings.TrimSpace(yaml.FormatError(err, false, true)))
		}
		found, err := topicsOf(doc)
		if err != nil {
			return nil, err
		}
		topics = append(topics, found...)
	}
	if len(topics) == 0 {
		return nil, errors.New("there is no topic in it; a topic is like {name: order.close, callback_url: https://…}")
	}
	return topics, nil
}

func topicsOf(doc any) ([]map[string]any, error) {
	switch d := doc.(type) {
	case nil:
		return nil, nil // an empty document
	case map[string]any:
		return []map[string]any{d}, nil
	case []any:
		var topics []map[string]any
		for _, one := range d {
			m, ok := one.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%v is not a topic, which is like {name: order.close, callback_url: https://…}", one)
			}
			topics = append(topics, m)
		}
		return topics, nil
	}
	return nil, fmt.Errorf("%v is neither a topic nor a list of topics", doc)
}

func newWanted(doc map[string]any) (w wantedTopic, err error) {
	name, ok := doc["name"].(string)
	if !ok {
		return w, errors.New("it has no name")
	}
	w.name = name
	if err := registry.ValidTopicName(name); err != nil {
		return w, err
	}
	delete(doc, "name")
	_, w.secrets = doc["secrets"]
	if w.json, err = json.Marshal(doc); err != nil {
		return w, err
	}
	w.fields, err = fieldsOf(registry.DecodeTopic(name, w.json))
	return w, err
}

func (a *cli) showChanges(changes []change, dryRun bool) error {
	if changes == nil {
		changes = []change{}
	}
	return a.show(changes, func(w io.Writer) error {
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
