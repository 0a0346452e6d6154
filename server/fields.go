package server

import (
	"net/http"
	"net/url"
	"time"

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
	return decodeObject(data, "an object", func(d *decoder, name jsontext.Token) error {
		f, known := fieldOf(name.String())
		if allowed&f == 0 {
			return unknownField(name.String(), allowed.names()...)
		}
		if in.came&f != 0 {
			return badField(known, "duplicate field")
		}
		in.came |= f
		return in.value(d, f, known)
	})
}

func (in *input) value(d *decoder, f fields, name string) (err error) {
	p := &in.push
	switch f {
	case fieldTopic:
		p.Topic, err = d.string(name)
	case fieldID:
		if p.ID, err = d.string(name); err == nil {
			err = checkID(name, p.ID)
		}
	case fieldBody:
		p.Body, err = d.raw()
	case fieldDelay:
		if p.Delay, err = d.duration(name); err == nil {
			p.Delay, err = checkDelay(name, p.Delay)
		}
	case fieldDueAt:
		p.DueAt, err = d.instant(name)
	case fieldTTR:
		if p.TTR, err = d.duration(name); err == nil {
			p.TTR, err = checkTTR(name, p.TTR)
		}
	default:
		err = in.choice(d, f, name)
	}
	return err
}

// choice reads the fields with a fixed set of values.
func (in *input) choice(d *decoder, f fields, name string) error {
	read := d.string
	if f == fieldMaxAttempts {
		read = d.number
	}
	text, err := read(name)
	if err != nil {
		return err
	}
	return in.text(f, name, text)
}

func (in *input) text(f fields, name, text string) (err error) {
	p := &in.push
	switch f {
	case fieldPriority:
		p.Priority, err = parsePriority(name, text)
	case fieldOnDuplicate:
		p.OnDuplicate, err = parseOnDuplicate(name, text)
	case fieldMaxAttempts:
		var n int64
		n, err = parseBounded(name, text, 1, maxAttempts)
		p.MaxAttempts = int(n)
	}
	return err
}

// query reads the options of a raw push. Numbers have no type of their own there, so durations may be seconds too.
func (in *input) query(values url.Values) error {
	for name, texts := range values {
		f, _ := fieldOf(name)
		if err := in.option(f, name, texts[0]); err != nil {
			return err
		}
		in.came |= f
	}
	return nil
}

func (in *input) option(f fields, name, text string) (err error) {
	p := &in.push
	switch f {
	case fieldDelay:
		if p.Delay, err = durationOption(name, text); err == nil {
			p.Delay, err = checkDelay(name, p.Delay)
		}
	case fieldTTR:
		if p.TTR, err = durationOption(name, text); err == nil {
			p.TTR, err = checkTTR(name, p.TTR)
		}
	case fieldDueAt:
		p.DueAt, err = instantOption(name, text)
	default:
		err = in.text(f, name, text)
	}
	return err
}

// number says whether a text is a JSON number: "NaN", "Inf" and "0x1p3" are none.
func number(text string) bool {
	v := jsontext.Value(text)
	return v.Kind() == '0' && v.IsValid()
}

func durationOption(name, text string) (time.Duration, error) {
	if number(text) {
		return parseSeconds(name, text)
	}
	return parseDuration(name, text)
}

func instantOption(name, text string) (time.Time, error) {
	if number(text) {
		return parseMillis(name, text)
	}
	// A plus that was not encoded arrives as a space; there is only one place in an instant where it can stand.
	if at := len(text) - len("+00:00"); at > 0 && text[at] == ' ' {
		text = text[:at] + "+" + text[at+1:]
	}
	return parseInstant(name, text)
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
