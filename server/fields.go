package server

import (
	"math"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// fields is a set of fields of a push, as bits.
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
	fieldTTL
	fieldExpiresAt
	fieldHeaders
	fieldRetry
)

// singleFields, batchFields and changeFields are the fields that a push, a member of a batch and a change may have.
const (
	singleFields = fieldID | fieldBody | changeFields | fieldTTR | fieldMaxAttempts | fieldOnDuplicate |
		fieldTTL | fieldExpiresAt | fieldHeaders | fieldRetry
	batchFields  = singleFields | fieldTopic
	changeFields = fieldBody | fieldDelay | fieldDueAt | fieldPriority
)

// input is a push or a change as requested, without the topic's defaults.
type input struct {
	given fields
	push  queue.Push
}

// fieldNames lists the names in the order of the bits.
var fieldNames = [...]string{"topic", "id", "body", "delay", "due_at", "priority", "ttr", "max_attempts",
	"on_duplicate", "ttl", "expires_at", "headers", "retry"}

// fieldOf returns the field of a name, or 0 for an unknown one. The returned name is not allocated.
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
		if in.given&f != 0 {
			return badField(known, "duplicate field")
		}
		in.given |= f
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

// query reads the options of a raw push. A value that looks like a JSON number is a number; any other is a string.
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
		in.given |= f
	}
	return nil
}

func optionValue(f fields, text string) (jsontext.Value, error) {
	if v := jsontext.Value(text); v.Kind() == '0' && v.IsValid() {
		return v, nil
	}
	// An unencoded plus sign arrives as a space. It can only be the sign of the zone.
	if at := len(text) - len("+00:00"); f == fieldDueAt && at > 0 && text[at] == ' ' {
		text = text[:at] + "+" + text[at+1:]
	}
	return jsontext.AppendQuote(nil, text)
}

// set decodes any field but the body.
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
		p.Priority, err = oneOf(name, v, priorities, "high, normal or low")
	case fieldTTR:
		p.TTR, err = ttrOf(name, v, registry.MaxPullTTR)
	case fieldMaxAttempts:
		p.MaxAttempts, err = integerOf(name, v, math.MinInt32, math.MaxInt32)
	case fieldOnDuplicate:
		p.OnDuplicate, err = oneOf(name, v, onDuplicate, "keep, replace or error")
	case fieldTTL:
		p.TTL, err = ttlOf(name, v)
	case fieldExpiresAt:
		p.ExpiresAt, err = instantOf(name, v)
	case fieldHeaders:
		p.Headers, err = headersOf(name, v)
	case fieldRetry:
		p.Retry, err = waitsOf(name, v)
	}
	return err
}

// complete checks the fields against each other and adds the topic's defaults.
func (in *input) complete(topic *registry.Topic, maxBody int) error {
	p := &in.push
	if in.given&fieldBody == 0 {
		return badField("body", "missing; any JSON value will do, also null")
	}
	if len(p.Body) > maxBody {
		return tooLarge("body", "body: %d bytes; the limit is %d", len(p.Body), maxBody)
	}
	if err := in.oneTime(); err != nil {
		return err
	}
	if err := in.withinTopic(topic); err != nil {
		return err
	}
	p.Topic = topic.Name
	if in.given&(fieldDelay|fieldDueAt) == 0 {
		p.Delay = topic.Delay.Std()
	}
	if in.given&fieldPriority == 0 {
		p.Priority = topicPriority(topic)
	}
	if p.ID == "" {
		p.ID, p.Fresh = queue.NewID(), true
	}
	return nil
}

func (in *input) oneTime() error {
	if in.given&fieldDelay != 0 && in.given&fieldDueAt != 0 {
		return badField("due_at", "given together with delay; give one of them")
	}
	if in.given&fieldTTL != 0 && in.given&fieldExpiresAt != 0 {
		return badField("expires_at", "given together with ttl; give one of them")
	}
	return nil
}

// withinTopic checks the limits that differ between pull and push topics.
func (in *input) withinTopic(topic *registry.Topic) error {
	p := &in.push
	if registry.IsNamespace(topic.Name) {
		return badField("topic", "%s is a namespace; push to a topic below it", topic.Name)
	}
	if most := topic.MaxTTR(); p.TTR > most {
		return outOfRange("ttr", "%s is not between %s and %s", p.TTR, minTTR, most)
	}
	_, most := topic.AttemptBounds()
	if in.given&fieldMaxAttempts != 0 && (p.MaxAttempts < 1 || p.MaxAttempts > most) {
		return outOfRange("max_attempts", "%d is not between 1 and %d", p.MaxAttempts, most)
	}
	return nil
}

// topicPriority returns the priority of a push that names none. The priority of a stored topic is valid.
func topicPriority(topic *registry.Topic) queue.Priority {
	p, err := queue.ParsePriority(topic.Priority)
	if err != nil {
		return queue.Normal
	}
	return p
}

// change returns the change that a PATCH asks for.
func (in *input) change(maxBody int) (queue.Change, error) {
	var change queue.Change
	if in.given == 0 {
		return change, &Problem{
			Status: http.StatusBadRequest, Detail: "nothing to change: give due_at or delay, priority or body",
		}
	}
	if err := in.oneTime(); err != nil {
		return change, err
	}
	p := in.push
	if in.given&fieldDueAt != 0 {
		change.DueAt = &p.DueAt
	}
	if in.given&fieldDelay != 0 {
		change.Delay = &p.Delay
	}
	if in.given&fieldPriority != 0 {
		change.Priority = &p.Priority
	}
	if in.given&fieldBody != 0 {
		change.Body = &p.Body
	}
	if len(p.Body) > maxBody {
		return change, tooLarge("body", "body: %d bytes; the limit is %d", len(p.Body), maxBody)
	}
	return change, nil
}
