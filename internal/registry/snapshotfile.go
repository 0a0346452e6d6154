package registry

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The file begins with the revision and mark of its snapshot, so that these can be read alone. A topic is stored as the
// members in which it differs from the defaults, which are also in the file. So reading 100,000 topics takes a tenth of
// a second.
const fileHead = `{"revision":%d,"mark":%q`

// diskSnapshot holds the other members of the file, apart from the topics, which follow them.
type diskSnapshot struct {
	Defaults jsontext.Value             `json:"defaults"`
	Shards   []Shard                    `json:"shards"`
	Tokens   map[string]*Token          `json:"tokens"`
	Settings map[string]json.RawMessage `json:"settings"`
	Notes    map[string]TopicNote       `json:"notes,omitempty"`

	Schedules map[string]json.RawMessage `json:"schedules,omitempty"` // as in the database
}

// encodeSnapshot writes topic by topic, because there may be many. The file contains their secrets, so that signing
// continues after a restart without the database.
func encodeSnapshot(w io.Writer, s *Snapshot) error {
	plain := NewTopic("")
	defaults, members, err := storedMembers(&plain)
	if err != nil {
		return err
	}
	d := diskSnapshot{
		Defaults: defaults, Shards: s.Shards, Tokens: s.Tokens, Settings: s.Settings,
		Notes:     make(map[string]TopicNote, s.Notes.Len()),
		Schedules: make(map[string]json.RawMessage, s.Schedules.Len()),
	}
	for name, schedule := range s.Schedules.All() {
		if d.Schedules[name], err = schedule.spec(); err != nil {
			return err
		}
	}
	maps.Insert(d.Notes, s.Notes.All())
	rest, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, fileHead+`,%s,"topics":{`, s.Revision, s.mark, rest[1:len(rest)-1]); err != nil {
		return err
	}
	comma := ""
	for name, t := range s.Topics.All() {
		differing, err := differingMembers(t, members)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n%q:%s", comma, name, differing); err != nil {
			return err
		}
		comma = ","
	}
	_, err = io.WriteString(w, "}}\n")
	return err
}

// storedMembers returns a topic's JSON, and its members.
func storedMembers(t *Topic) (text []byte, members []member, err error) {
	if text, err = json.Marshal(storedTopic{t, t.Secrets, t.Locked}); err == nil {
		members, err = objectMembers(text)
	}
	return text, members, err
}

// differingMembers returns a JSON object with the members of a topic that differ from the defaults.
func differingMembers(t *Topic, defaults []member) ([]byte, error) {
	text, err := json.Marshal(storedTopic{t, t.Secrets, t.Locked})
	if err != nil {
		return nil, err
	}
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	out := []byte{'{'}
	i := 0
	err = eachMember(dec, func(name string) error {
		value, err := dec.ReadValue()
		if i < len(defaults) && defaults[i].name == name && bytes.Equal(defaults[i].value, value) {
			i++
			return err
		}
		if i++; len(out) > 1 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q:%s", name, value)
		return err
	})
	return append(out, '}'), err
}

// markInFile returns the mark of the revision in a file, or "".
func markInFile(file string) (mark string) {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	var revision int64
	if _, err := fmt.Fscanf(f, fileHead, &revision, &mark); err != nil {
		return ""
	}
	return mark
}

func readSnapshot(file string) (*Snapshot, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	defer func() { _ = f.Close() }()
	s, err := decodeSnapshot(f)
	if err != nil {
		return nil, fmt.Errorf("read snapshot %s: %w", file, err)
	}
	return s, nil
}

func decodeSnapshot(r io.Reader) (*Snapshot, error) {
	s := &Snapshot{
		Topics: Table[*Topic]{}.edit(), Notes: Table[TopicNote]{}.edit(), Schedules: Table[*Schedule]{}.edit(),
	}
	var defaults storedTopic
	var notes map[string]TopicNote
	var schedules map[string]json.RawMessage
	into := map[string]any{
		"revision": &s.Revision, "mark": &s.mark, "defaults": &defaults,
		"shards": &s.Shards, "tokens": &s.Tokens, "settings": &s.Settings, "notes": &notes,
		"schedules": &schedules,
	}
	dec := jsontext.NewDecoder(bufio.NewReaderSize(r, 64<<10))
	err := eachMember(dec, func(name string) error {
		if name == "topics" {
			return eachMember(dec, func(name string) error { return s.decodeTopic(dec, name, defaults.Topic) })
		}
		if into[name] == nil {
			return dec.SkipValue()
		}
		return jsonv2.UnmarshalDecode(dec, into[name])
	})
	if err != nil {
		return nil, err
	}
	if s.Revision == 0 {
		return nil, errors.New("not a snapshot of a registry")
	}
	for name, n := range notes {
		s.Notes.tree.Set(name, n)
	}
	for name, spec := range schedules {
		schedule, err := decodeSchedule(name, spec)
		if err != nil {
			return nil, err
		}
		s.Schedules.tree.Set(name, schedule)
	}
	for hash, t := range s.Tokens {
		if t == nil || t.Hash != hash {
			return nil, errors.New("a token is damaged")
		}
	}
	s.SetLimits()
	return s, nil
}

func (s *Snapshot) decodeTopic(dec *jsontext.Decoder, name string, defaults *Topic) error {
	t := &Topic{}
	if defaults != nil {
		*t = *defaults
		t.Headers = nil // decoding would add to the defaults' headers
	}
	st := storedTopic{Topic: t}
	if err := jsonv2.UnmarshalDecode(dec, &st); err != nil {
		return err
	}
	if st.Topic == nil || st.Name != name {
		return fmt.Errorf("topic %.80q is damaged", name)
	}
	t.Secrets, t.Locked = st.Secrets, st.Locked
	t.tidy()
	s.Topics.tree.Set(t.Name, t)
	return nil
}

// eachMember calls read with the name of each member of the next object; read consumes the value.
func eachMember(dec *jsontext.Decoder, read func(name string) error) error {
	begin, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if begin.Kind() != '{' {
		return Malformed("", "field.json_object")
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if err := read(name.String()); err != nil {
			return err
		}
	}
	_, err = dec.ReadToken()
	return err
}
