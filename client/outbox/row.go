package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wakecall/wakecall/client"
)

// options are the fields of a push that have no column.
type options struct {
	TTR         client.Duration   `json:"ttr,omitzero"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	OnDuplicate string            `json:"on_duplicate,omitempty"`
	TTL         client.Duration   `json:"ttl,omitzero"`
	ExpiresAt   int64             `json:"expires_at,omitempty"` // Unix milliseconds
	Headers     map[string]string `json:"headers,omitempty"`
	Retry       []client.Duration `json:"retry,omitempty"`
	Key         string            `json:"key,omitempty"`
	URL         *string           `json:"url,omitempty"` // of a change; empty: the topic's
	Traceparent string            `json:"traceparent,omitempty"`
	Close       client.Duration   `json:"close,omitzero"` // of cancel_group
}

func (o options) text() (string, error) {
	b, err := json.Marshal(o)
	if err != nil || string(b) == "{}" {
		return "", err
	}
	return string(b), nil
}

func pushRow(p client.Push) (r row, err error) {
	r = row{op: "push", topic: p.Topic, id: p.ID, body: string(p.Body), priority: p.Priority, group: p.Group}
	o := options{
		TTR: client.Duration(p.TTR), MaxAttempts: p.MaxAttempts, OnDuplicate: p.OnDuplicate,
		TTL: client.Duration(p.TTL), Headers: p.Headers, Key: p.Key, Traceparent: p.Traceparent,
	}
	if p.URL != "" {
		o.URL = &p.URL
	}
	if !p.ExpiresAt.IsZero() {
		o.ExpiresAt = millis(p.ExpiresAt)
	}
	for _, wait := range p.Retry {
		o.Retry = append(o.Retry, client.Duration(wait))
	}
	errs := []error{
		checkTopic(p.Topic), checkGiven("id", p.ID), checkGiven("group", p.Group), checkGiven("key", p.Key),
		checkBody(p.Body), checkPriority(p.Priority), r.setDue(p.Delay, p.DueAt), checkNotLocal(p.DueLocal, p.TimeZone),
	}
	if p.Wait != 0 || p.DeleteOnTimeout {
		errs = append(errs, errors.New("a push through the outbox cannot wait for its answer"))
	}
	if !slices.Contains([]string{"", client.Keep, client.Replace}, p.OnDuplicate) {
		errs = append(errs, fmt.Errorf("on_duplicate must be %s or %s", client.Keep, client.Replace))
	}
	if p.TTL != 0 && !p.ExpiresAt.IsZero() {
		errs = append(errs, errors.New("ttl and expires_at exclude each other"))
	}
	if p.TTR < 0 || p.TTL < 0 || p.MaxAttempts < 0 {
		errs = append(errs, errors.New("ttr, ttl and max_attempts must not be negative"))
	}
	r.options, err = o.text()
	return r, errors.Join(append(errs, err)...)
}

func changeRow(job Job, ch client.Change) (row, error) {
	r := row{op: "change", topic: job.Topic, id: job.ID, group: job.Group, body: string(ch.Body), priority: ch.Priority}
	var due time.Time
	if ch.DueAt != nil {
		due = *ch.DueAt
	}
	errs := []error{
		checkTopic(job.Topic), checkID("id", job.ID), checkGiven("group", job.Group), checkPriority(ch.Priority),
		r.setDue(ch.Delay, due), checkNotLocal(ch.DueLocal, ch.TimeZone),
	}
	if ch.Body != nil {
		errs = append(errs, checkBody(ch.Body))
	}
	if ch.ETag != "" {
		errs = append(errs, errors.New("a change through the outbox cannot depend on an ETag"))
	}
	if ch.DueAt == nil && ch.Delay == nil && ch.Priority == "" && ch.Body == nil && ch.URL == nil {
		errs = append(errs, errors.New("nothing to change"))
	}
	text, err := options{URL: ch.URL}.text()
	r.options = text
	return r, errors.Join(append(errs, err)...)
}

func checkNotLocal(due, zone string) error {
	if due+zone == "" {
		return nil
	}
	return errors.New("due_at must not be a local time: the outbox stores an instant")
}

func cancelRow(group string, closeFor time.Duration) (r row, err error) {
	const longest = 30 * 24 * time.Hour
	r = row{op: "cancel_group", group: group}
	if closeFor != 0 && (closeFor < time.Second || closeFor > longest) {
		err = errors.New("close must be 1s to 30 days")
	}
	text, encoding := options{Close: client.Duration(closeFor)}.text()
	r.options = text
	return r, errors.Join(checkID("group", group), err, encoding)
}

// setDue sets when the job is due. A job must never be early, so both are rounded up to milliseconds.
func (r *row) setDue(delay *time.Duration, dueAt time.Time) error {
	switch {
	case delay != nil && !dueAt.IsZero():
		return errors.New("delay and due_at exclude each other")
	case delay != nil && *delay < 0:
		return errors.New("delay must not be negative")
	case delay != nil:
		r.delayMS = (*delay + time.Millisecond - 1).Milliseconds()
	case !dueAt.IsZero() && dueAt.Year() < 2000:
		return errors.New("due_at must not be before 2000")
	case !dueAt.IsZero():
		r.dueAt = millis(dueAt)
	}
	return nil
}

func millis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

var (
	topicName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)
)

func (t Table) check() error {
	if !slices.Contains([]Dialect{MySQL, PostgreSQL, SQLite}, t.Dialect) {
		return fmt.Errorf("dialect must be %s, %s or %s", MySQL, PostgreSQL, SQLite)
	}
	if t.Name != "" && !tableName.MatchString(t.Name) {
		return fmt.Errorf("table name %q must have letters, digits and underscores only", t.Name)
	}
	return nil
}

func checkTopic(name string) error {
	if !topicName.MatchString(name) {
		return fmt.Errorf("topic %q must match %s", name, topicName)
	}
	return nil
}

func checkGiven(field, id string) error {
	if id == "" {
		return nil
	}
	return checkID(field, id)
}

func checkID(field, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is required", field)
	case len(id) > 128:
		return fmt.Errorf("%s has %d bytes; the limit is 128", field, len(id))
	case strings.Trim(id, " ") != id:
		return fmt.Errorf("%s must not begin or end with a space", field)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s %+q must be printable UTF-8", field, id)
	}
	return nil
}

func checkBody(body json.RawMessage) error {
	if !json.Valid(body) {
		return errors.New("body must be JSON")
	}
	if !utf8.Valid(body) {
		return errors.New("body must be UTF-8")
	}
	return nil
}

func checkPriority(p string) error {
	if !slices.Contains([]string{"", client.High, client.Normal, client.Low}, p) {
		return fmt.Errorf("priority must be %s, %s or %s", client.High, client.Normal, client.Low)
	}
	return nil
}
