// Package topicfile reads topics and schedules from a YAML or JSON file, for `wakecall topic apply` and the admin's
// import.
package topicfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/wakecall/wakecall/internal/document"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
)

// Object is a topic or a schedule in a file.
type Object[T any] struct {
	Name string
	Is   *T              // with all defaults
	JSON json.RawMessage // the fields in the file, without the name, as the API accepts them
}

// What a file may have.
type (
	Topic    = Object[registry.Topic]
	Schedule = Object[registry.Schedule]
)

// File is what is in a file.
type File struct {
	Topics    []Topic
	Schedules []Schedule
}

// Parse reads a file of documents, each a topic, a schedule, a list of them, or the API's answer with all topics. Its
// error lists every invalid topic and schedule.
func Parse(data []byte) (file File, err error) {
	documents, err := document.YAML(data)
	if at, ok := errors.AsType[*document.Error](err); ok {
		place := fmt.Sprintf("[%d:%d] %s", at.Line, at.Column, at.Message)
		return file, message.New("file.document", at.Document, place)
	}
	var errs []error
	count := 0
	for n, body := range documents {
		list, err := objectsIn(body)
		if err != nil {
			return File{}, message.New("file.document", n+1, err)
		}
		for _, fields := range list {
			count++
			errs = append(errs, file.add(fields, n+1, count))
		}
	}
	if count == 0 {
		return file, message.New("file.none")
	}
	return file, errors.Join(errs...)
}

// add adds a topic or a schedule. document and number say where it is.
func (f *File) add(fields map[string]any, document, number int) error {
	key, code := "name", "file.topic"
	if _, is := fields[scheduleKey]; is {
		key, code = scheduleKey, "file.schedule"
	}
	name, err := takeName(fields, key)
	if err == nil {
		err = f.decode(key, name, fields)
	}
	if err != nil {
		return message.New(code, document, nameOf(name, number), err)
	}
	return nil
}

// decode decodes the fields of a topic or a schedule, which the key with its name tells.
func (f *File) decode(key, name string, fields map[string]any) error {
	data, err := encode(fields)
	if err != nil {
		return err
	}
	if key == scheduleKey {
		s, err := registry.DecodeSchedule(name, data)
		if err != nil {
			return err
		}
		f.Schedules = append(f.Schedules, Schedule{name, s, data})
		return s.Validate()
	}
	t, err := registry.DecodeTopic(name, data)
	if err != nil {
		return err
	}
	f.Topics = append(f.Topics, Topic{name, t, data})
	return nil
}

// scheduleKey is the field with the name of a schedule, which tells it from a topic.
const scheduleKey = "schedule"

// objectsIn decodes the topics and schedules of a document.
func objectsIn(body ast.Node) ([]map[string]any, error) {
	for _, n := range ast.Filter(ast.IntegerType, body) {
		if t := n.GetToken(); t.Type == token.OctetIntegerType && !strings.Contains(t.Value, "o") {
			return nil, message.New("file.octal", t.Value)
		}
	}
	var value any
	if err := yaml.NodeToValue(body, &value); err != nil {
		return nil, message.Plain(strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	if size := maxSize; !fits(value, &size) {
		return nil, message.New("file.aliases", maxSize>>20)
	}
	return objectsOf(value)
}

// maxSize limits the bytes of a document's values with all aliases expanded.
const maxSize = 64 << 20

// fits subtracts the size of a value from left, and reports whether left was enough. A value named by several aliases
// is decoded once, so nested aliases cost nothing until the value is written.
func fits(value any, left *int) bool {
	*left--
	switch v := value.(type) {
	case string:
		*left -= len(v)
	case []any:
		for _, item := range v {
			if !fits(item, left) {
				return false
			}
		}
	case map[string]any:
		for key, item := range v {
			if *left -= len(key); !fits(item, left) {
				return false
			}
		}
	}
	return *left >= 0
}

// Format writes a topic's JSON as YAML that Parse reads, without what the registry adds.
func Format(topic []byte) ([]byte, error) {
	var fields yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(topic, &fields, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	told := []any{"created_at", "updated_at", "pause_reason", "paused_until"}
	return format(slices.DeleteFunc(fields, func(f yaml.MapItem) bool { return slices.Contains(told, f.Key) }))
}

// FormatSchedule writes a schedule as YAML that Parse reads, without what the registry adds.
func FormatSchedule(s *registry.Schedule) ([]byte, error) {
	own := s.Fields()
	fields := yaml.MapSlice{{Key: scheduleKey, Value: s.Name}}
	for _, name := range slices.SortedFunc(maps.Keys(own), byPlace) {
		var value any
		if err := yaml.UnmarshalWithOptions(own[name], &value, yaml.UseOrderedMap()); err != nil {
			return nil, err
		}
		fields = append(fields, yaml.MapItem{Key: name, Value: value})
	}
	return format(fields)
}

// byPlace compares the names of fields of a schedule: when it is comes first.
func byPlace(a, b string) int {
	place := func(name string) int { return slices.Index([]string{"time_zone", "every", "cron", "topic"}, name) }
	return cmp.Or(cmp.Compare(place(b), place(a)), cmp.Compare(a, b))
}

func format(fields yaml.MapSlice) ([]byte, error) {
	return yaml.MarshalWithOptions(fields, yaml.CustomMarshaler(func(s string) ([]byte, error) {
		if plain.MatchString(s) {
			return yaml.Marshal(s) // Marshal quotes words such as true
		}
		return []byte(strconv.Quote(s)), nil // Go's escapes are valid in YAML
	}))
}

// plain matches texts that no YAML parser can misread without quotes. go-yaml itself quotes too little: not "? x", tabs
// and U+2028.
var plain = regexp.MustCompile(`^(\p{L}|/|[0-9]+(\.[0-9]+)?(ms|s|m|h))([\p{L}\p{N}_./@%+,=?&;~()-]|[ :]\p{L}|://)*$`)

func objectsOf(value any) ([]map[string]any, error) {
	switch d := value.(type) {
	case nil:
		return nil, nil // an empty document
	case map[string]any:
		if list, ok := d["topics"].([]any); ok { // as the API lists them
			if next, _ := d["next"].(string); next != "" {
				return nil, message.New("file.page", next)
			}
			return objectsOf(list)
		}
		return []map[string]any{d}, nil
	case []any:
		var list []map[string]any
		for _, item := range d {
			fields, ok := item.(map[string]any)
			if !ok {
				return nil, message.New("file.not_topic", item)
			}
			list = append(list, fields)
		}
		return list, nil
	}
	return nil, message.New("file.neither", value)
}

// nameOf returns the name of a topic in errors.
func nameOf(name string, n int) message.Message {
	if name == "" {
		return message.New("file.number", n)
	}
	return message.Plain(name)
}

// takeName removes the name from the fields.
func takeName(fields map[string]any, key string) (string, error) {
	switch name := fields[key].(type) {
	case nil:
		return "", message.New("file.no_name")
	case string:
		if name == "" {
			return "", message.New("file.no_name")
		}
		delete(fields, key)
		return name, registry.ValidTopicName(name)
	default: // YAML reads 2026 as a number
		return "", message.New("file.name_string", name)
	}
}

// encode is json.Marshal without escaping <, > and &, which would reach the endpoint in a body.
func encode(fields map[string]any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(fields)
	return bytes.TrimSpace(b.Bytes()), err
}
