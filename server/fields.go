package server

import (
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// fields of a push, as bits: which ones came.
type fields uint16

const (
	fieldTopic fields = 1 << iota
	fieldID
	fieldBody
	fieldDelay
	fieldDueAt
	fieldPriority
	fieldTTR
	fieldMaxAttempts
	fieldOnDuplicate
)

// singleFields and batchFields are what may stand in one push and in a member of a batch.
const (
	singleFields = fieldID | fieldBody | changeFields | fieldTTR | fieldMaxAttempts | fieldOnDuplicate
	batchFields  = singleFields | fieldTopic
	changeFields = fieldBody | fieldDelay | fieldDueAt | fieldPriority
)

// input is a push as it was asked for, before the topic's defaults.
type input struct {
	came fields
	push queue.Push
}

// fieldNames are in the order of the bits.
var fieldNames = [...]string{"topic", "id", "body", "delay", "due_at", "priority", "ttr", "max_attempts", "on_duplicate"}

// fieldOf returns 0 for an unknown name. The name that it returns is not allocated.
func fieldOf(name string) (fields, string) {
	for i, known := range fieldNames {
		if name == known {
			return 1 << i, known
		}
	}
	return 0, ""
}

func (f fields) names() (names []string) {
	for i, name := range fieldNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// decode reads the JSON of one push or change. The body is a part of data.
func (in *input) decode(data []byte, allowed fields) error {
	if err := checkUTF8(data); err != nil {
		return err
	}
	return decodeObject(data, "an object", func(d *decoder, name jsontext.Token) (err error) {
		f, known := fieldOf(name.String())
		if allowed&f == 0 {
			return unknownField(name.String(), allowed.names()...)
		}
		if in.came&f != 0 {
			return badField(known, "duplicate field")
		}
		in.came |= f
		if f == fieldBody {
			in.push.Body, err = d.raw()
			return err
		}
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		return in.set(f, known, v)
	})
}

// query reads the options of a raw push. A value that is a JSON number is one here, too; any other is text.
func (in *input) query(values url.Values) error {
	for name, texts := range values {
		f, _ := fieldOf(name)
		v, err := optionValue(f, texts[0])
		if err != nil {
			return badField(name, "not valid UTF-8")
		}
		if err := in.set(f, name, v); err != nil {
			return err
		}
		in.came |= f
	}
	return nil
}

func optionValue(f fields, text string) (jsontext.Value, error) {
	if v := jsontext.Value(text); v.Kind() == '0' && v.IsValid() {
		return v, nil
	}
	// A plus that was not encoded arrives as a space; there is only one place in an instant where it can stand.
	if at := len(text) - len("+00:00"); f == fieldDueAt && at > 0 && text[at] == ' ' {
		text = text[:at] + "+" + text[at+1:]
	}
	return jsontext.AppendQuote(nil, text)
}

// set reads any field but the body.
func (in *input) set(f fields, name string, v jsontext.Value) (err error) {
	p := &in.push
	switch f {
	case fieldTopic:
		p.Topic, err = textOf(name, v)
	case fieldID:
		p.ID, err = idOf(name, v)
	case fieldDelay:
		p.Delay, err = delayOf(name, v)
	case fieldDueAt:
		p.DueAt, err = instantOf(name, v)
	case fieldPriority:
		p.Priority, err = priorityOf(name, v)
	case fieldTTR:
		p.TTR, err = ttrOf(name, v)
	case fieldMaxAttempts:
		p.MaxAttempts, err = integerOf(name, v, 1, maxAttempts)
	case fieldOnDuplicate:
		p.OnDuplicate, err = onDuplicateOf(name, v)
	}
	return err
}

// complete checks the fields against each other and fills in what the topic says.
func (in *input) complete(topic *registry.Topic, maxBody int) error {
	p := &in.push
	if in.came&fieldBody == 0 {
		return badField("body", "is missing; it may be any JSON value, also null")
	}
	if len(p.Body) > maxBody {
		return tooLarge("body", "body: %d bytes are too large; at most %d", len(p.Body), maxBody)
	}
	if err := in.oneTime(); err != nil {
		return err
	}
	p.Topic = topic.Name
	if in.came&(fieldDelay|fieldDueAt) == 0 {
		p.Delay = topic.Delay.Std()
	}
	if in.came&fieldPriority == 0 {
		p.Priority = topicPriority(topic)
	}
	if p.ID == "" {
		p.ID, p.Fresh = queue.NewID(), true
	}
	return nil
}

func (in *input) oneTime() error {
	if in.came&fieldDelay != 0 && in.came&fieldDueAt != 0 {
		return badField("due_at", "stands beside delay; give one of them")
	}
	return nil
}

// topicPriority is the priority of a push that names none. A topic that was stored is valid.
func topicPriority(topic *registry.Topic) queue.Priority {
	p, err := queue.ParsePriority(topic.Priority)
	if err != nil {
		return queue.Normal
	}
	return p
}

// change makes an edit of what came.
func (in *input) change(maxBody int) (queue.Change, error) {
	var change queue.Change
	if in.came == 0 {
		return change, &Problem{
			Status: http.StatusBadRequest, Detail: "nothing to change: give due_at or delay, priority or body",
		}
	}
	if err := in.oneTime(); err != nil {
		return change, err
	}
	p := in.push
	if in.came&fieldDueAt != 0 {
		change.DueAt = &p.DueAt
	}
	if in.came&fieldDelay != 0 {
		change.Delay = &p.Delay
	}
	if in.came&fieldPriority != 0 {
		change.Priority = &p.Priority
	}
	if in.came&fieldBody != 0 {
		change.Body = &p.Body
	}
	if len(p.Body) > maxBody {
		return change, tooLarge("body", "body: %d bytes are too large; at most %d", len(p.Body), maxBody)
	}
	return change, nil
}
