package server

import (
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// changeRequest contains the fields that a PATCH may change.
type changeRequest struct {
	Body anything `json:"body"`
	dueRequest
	Priority field[priority]   `json:"priority"`
	URL      clearable[string] `json:"url"`
}

// pushRequest is a push without its topic.
type pushRequest struct {
	ID field[jobID] `json:"id"`
	changeRequest
	TTR         field[ttr]               `json:"ttr"`
	MaxAttempts field[integer]           `json:"max_attempts"`
	OnDuplicate field[onDuplicate]       `json:"on_duplicate"`
	TTL         field[ttl]               `json:"ttl"`
	ExpiresAt   field[moment]            `json:"expires_at"`
	Headers     field[map[string]string] `json:"headers"`
	Retry       field[[]retryWait]       `json:"retry"`
	Group       field[groupName]         `json:"group"`
	Traceparent field[traceparent]       `json:"traceparent"`
	Key         field[groupName]         `json:"key"`
	Wait        field[pushWait]          `json:"wait"`
	OnTimeout   field[onTimeout]         `json:"on_timeout"`
}

// memberRequest is a push of a batch.
type memberRequest struct {
	Topic field[string] `json:"topic"`
	pushRequest
}

// jobID is the id of a push.
type jobID string

// UnmarshalText checks the id.
func (i *jobID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return badValue("must not be empty; omit it to generate one")
	}
	if err := store.CheckID(string(text)); err != nil {
		return badValue("%v", err)
	}
	*i = jobID(text)
	return nil
}

// groupName is the group or the key of a push, by the rules of ids.
type groupName string

// UnmarshalText checks the name.
func (g *groupName) UnmarshalText(text []byte) error {
	if err := store.CheckID(string(text)); err != nil {
		return badValue("%v", err)
	}
	*g = groupName(text)
	return nil
}

func checkID(field, id string) error {
	if err := store.CheckID(id); err != nil {
		return badField(field, "%v", err)
	}
	return nil
}

// jsonBody returns the body of a push in JSON.
func (r *pushRequest) jsonBody(request []byte) ([]byte, error) {
	if !r.Body.given {
		return nil, badField("body", "required; any JSON value, including null")
	}
	return r.Body.of(request), nil
}

// push returns the push of a job to a topic, with the topic's defaults.
func (r *pushRequest) push(topic *registry.Topic, body []byte, maxBody int, now time.Time) (store.Push, error) {
	if err := r.check(topic, body, maxBody); err != nil {
		return store.Push{}, err
	}
	url, err := r.jobURL(topic)
	if err != nil {
		return store.Push{}, err
	}
	p := store.Push{
		Topic: topic.Name, ID: string(r.ID.value), Body: body, Priority: store.Priority(r.Priority.value),
		URL: url, Key: string(r.Key.value),
		Delay: time.Duration(r.Delay.value), DueAt: time.Time(r.DueAt.value.moment),
		TTR: time.Duration(r.TTR.value), MaxAttempts: int(r.MaxAttempts.value),
		TTL: time.Duration(r.TTL.value), ExpiresAt: time.Time(r.ExpiresAt.value), Headers: r.Headers.value,
		OnDuplicate: store.OnDuplicate(r.OnDuplicate.value), Group: string(r.Group.value),
		Traceparent: string(r.Traceparent.value),
	}
	for _, wait := range r.Retry.value {
		p.Retry = append(p.Retry, time.Duration(wait))
	}
	if !r.Delay.given && !r.DueAt.given {
		p.Delay = topic.Delay.Std()
	}
	if !r.Priority.given {
		p.Priority = topicPriority(topic)
	}
	if p.ID == "" {
		p.ID, p.Fresh = store.NewID(), true
	}
	return p, checkExpiry(&p, now)
}

// checkExpiry refuses a job that would expire before it is due. Two instants are compared with each other, not with the
// clock, so that a push that is repeated later gets the same answer.
func checkExpiry(p *store.Push, now time.Time) error {
	due := p.DueAt
	if due.IsZero() {
		due = now.Add(p.Delay)
	}
	switch {
	case p.TTL > 0 && !now.Add(p.TTL).After(due):
		return outOfRange("ttl", "must end after the due time")
	case !p.ExpiresAt.IsZero() && !p.ExpiresAt.After(due):
		return outOfRange("expires_at", "must be after the due time")
	}
	return nil
}

// check checks the fields against each other and against the topic.
func (r *pushRequest) check(topic *registry.Topic, body []byte, maxBody int) error {
	if registry.IsNamespace(topic.Name) {
		return badField("topic", "%s is a namespace; push to a topic in it", topic.Name)
	}
	if err := checkSize(body, maxBody); err != nil {
		return err
	}
	if err := r.checkTime(); err != nil {
		return err
	}
	if r.TTL.given && r.ExpiresAt.given {
		return badField("expires_at", "must not be combined with ttl")
	}
	if given, longest := time.Duration(r.TTR.value), topic.MaxTTR(); given > longest {
		return outOfRange("ttr", "must be between %s and %s, got %s", registry.MinTTR, longest, given)
	}
	if r.MaxAttempts.given {
		_, most := topic.AttemptBounds()
		if _, err := r.MaxAttempts.value.between("max_attempts", 1, most); err != nil {
			return err
		}
	}
	if len(r.Retry.value) > store.MaxWaits {
		return outOfRange("retry", "%d entries; the limit is %d (the last one repeats)",
			len(r.Retry.value), store.MaxWaits)
	}
	if r.Headers.given {
		return registry.ValidHeaders(r.Headers.value)
	}
	return nil
}

func checkSize(body []byte, most int) error {
	if len(body) > most {
		return tooLarge("body", "body: %d bytes; the limit is %d", len(body), most)
	}
	return nil
}

// jobURL returns the job's own URL, empty for none. Error: a *registry.FieldError.
func (r *changeRequest) jobURL(topic *registry.Topic) (string, error) {
	if !r.URL.given || r.URL.null {
		return "", nil
	}
	return topic.JobURL(r.URL.value)
}

// topicPriority returns the priority of a push that sets none. The priority of a stored topic is valid.
func topicPriority(topic *registry.Topic) store.Priority {
	p, err := store.ParsePriority(topic.Priority)
	if err != nil {
		return store.Normal
	}
	return p
}
