package relay

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
)

// The operations of a row.
const (
	opPush        = "push"
	opChange      = "change"
	opDelete      = "delete"
	opCancelGroup = "cancel_group"
)

// request is the call of the API for a row.
type request struct {
	method, path string
	body         []byte // of a push: a member of a batch
}

// columnOf says which column has a field that a row's options must not set.
var columnOf = map[string]string{"topic": "topic", "id": "job_id", "body": "body", "due_at": "due_at",
	"delay": "delay_ms", "priority": "priority", "group": "group_name"}

// errTopic is the refusal of a row that --topics excludes: it is set aside at once.
var errTopic = errors.New("the relay's --topics does not allow")

// request makes the call of a row. An error is a refusal: repeating it does not help.
func (r *Row) request(table string, topics []string) (*request, error) {
	allowed := func(pattern string) bool { return registry.MatchesPattern(pattern, r.Topic) }
	if r.Op != opCancelGroup && len(topics) > 0 && !slices.ContainsFunc(topics, allowed) {
		return nil, fmt.Errorf("%w topic %q", errTopic, r.Topic)
	}
	options := map[string]json.RawMessage{}
	if strings.TrimSpace(r.options) != "" {
		if err := json.Unmarshal([]byte(r.options), &options); err != nil {
			return nil, fmt.Errorf("options must be a JSON object: %w", err)
		}
	}
	switch r.Op {
	case opPush, opChange, opDelete:
		return r.jobRequest(table, options)
	case opCancelGroup:
		return r.groupRequest(options, topics)
	}
	return nil, fmt.Errorf("op %q must be push, change, delete or cancel_group", r.Op)
}

func (r *Row) jobRequest(table string, options map[string]json.RawMessage) (*request, error) {
	switch {
	case r.Topic == "":
		return nil, fmt.Errorf("topic is required for %s", r.Op)
	case r.JobID == "" && r.Op != opPush:
		return nil, fmt.Errorf("job_id is required for %s", r.Op)
	case r.Op == opDelete && len(options) > 0:
		return nil, errors.New("options must be empty for delete")
	case r.Op == opDelete:
		return &request{method: http.MethodDelete, path: r.jobPath()}, nil
	}
	fields, err := r.jobFields(table, options)
	if err != nil {
		return nil, err
	}
	body, err := object(fields)
	return &request{method: http.MethodPatch, path: r.jobPath(), body: body}, err
}

func (r *Row) jobPath() string {
	return "/v1/topics/" + segment(r.Topic) + "/jobs/" + segment(r.JobID)
}

// segment escapes a segment of a path; . and .. are no relative paths.
func segment(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

// jobFields returns the fields of a push or a change.
func (r *Row) jobFields(table string, options map[string]json.RawMessage) (map[string][]byte, error) {
	fields := map[string][]byte{}
	for name, value := range options {
		if column := columnOf[name]; column != "" {
			return nil, fmt.Errorf("options.%s is not allowed: use the column %s", name, column)
		}
		fields[name] = value
	}
	if r.Op == opPush {
		fields["topic"], fields["id"], fields["body"] = text(r.Topic), text(r.pushID(table)), []byte("null")
		if r.Group != "" {
			fields["group"] = text(r.Group)
		}
	}
	if r.body != nil {
		fields["body"] = []byte(*r.body)
	}
	if r.priority != "" {
		fields["priority"] = text(r.priority)
	}
	switch {
	case r.dueAt != nil && r.delayMS != nil:
		return nil, errors.New("due_at and delay_ms are both set: set one of them")
	case r.delayMS != nil && *r.delayMS < 0:
		return nil, fmt.Errorf("delay_ms %d must not be negative", *r.delayMS)
	case r.delayMS != nil: // an instant, so that the relay's lag, and a repetition, add nothing
		fields["due_at"] = fmt.Append(nil, r.CreatedAt+*r.delayMS)
	case r.dueAt != nil:
		fields["due_at"] = fmt.Append(nil, *r.dueAt)
	}
	return fields, nil
}

// pushID returns the id of a push; one without gets the same in each repetition, and none that a row of another table
// gets.
func (r *Row) pushID(table string) string {
	if r.JobID != "" {
		return r.JobID
	}
	hash := sha256.Sum256([]byte(table))
	return fmt.Sprintf("outbox-%x-%d-%d", hash[:6], r.CreatedAt, r.Seq)
}

func (r *Row) groupRequest(options map[string]json.RawMessage, topics []string) (*request, error) {
	if r.Group == "" {
		return nil, errors.New("group_name is required for cancel_group")
	}
	query := url.Values{}
	for name, value := range options {
		var s string
		switch {
		case name != "close":
			return nil, fmt.Errorf("options.%s is not allowed for cancel_group: only close", name)
		case json.Unmarshal(value, &s) != nil:
			s = string(value) // a number of seconds
		}
		query.Set(name, s)
	}
	if len(topics) > 0 {
		query.Set("topics", strings.Join(topics, ","))
	}
	path := "/v1/groups/" + segment(r.Group)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return &request{method: http.MethodDelete, path: path}, nil
}

// object writes an object whose values stay as they are, byte for byte.
func object(fields map[string][]byte) ([]byte, error) {
	members := make([][]byte, 0, len(fields))
	for name, value := range fields {
		if !json.Valid(value) {
			return nil, fmt.Errorf("%s must be JSON, not %q", name, clip(string(value)))
		}
		members = append(members, slices.Concat(text(name), []byte{':'}, value))
	}
	return slices.Concat([]byte{'{'}, bytes.Join(members, []byte{','}), []byte{'}'}), nil
}

func text(s string) []byte {
	quoted, _ := json.Marshal(s) // a string cannot fail
	return quoted
}

// clip bounds a text for last_error.
func clip(s string) string {
	return printable.Clip(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD"), errorBytes)
}
