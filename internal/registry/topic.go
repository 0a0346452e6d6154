package registry

import (
	"time"
)

// Topic is a kind of job: where and how it is called back. Its JSON form is that of the API, with durations as Go
// durations in text. Missing fields take the defaults of NewTopic.
type Topic struct {
	Name         string            `json:"name"`
	Title        string            `json:"title"`
	Delivery     Delivery          `json:"delivery"`
	CallbackURL  string            `json:"callback_url"` // empty for a pull topic
	JobURLs      []string          `json:"job_urls"`     // patterns of the URLs that jobs may have, see joburl.go
	CloudEvents  bool              `json:"cloudevents"`  // callbacks are CloudEvents in binary mode
	Method       string            `json:"method"`       // POST, PUT or GET
	ContentType  string            `json:"content_type"` // json, form
	Headers      map[string]string `json:"headers"`
	Delay        Duration          `json:"delay"` // used when a push sets no delay
	TTR          Duration          `json:"ttr"`
	Priority     string            `json:"priority"`
	MaxAttempts  int               `json:"max_attempts"` // 0: no limit, for pull topics only
	Retry        []Duration        `json:"retry"`        // empty: 1, 3, 5 … minutes
	RetryIf      string            `json:"retry_if"`
	Dialect      string            `json:"dialect"`       // form of callbacks, responses and retry_if
	MaxInFlight  int               `json:"max_in_flight"` // 0: no limit
	RateLimit    float64           `json:"rate_limit"`    // callbacks a second; 0: no limit
	PerKey       *PerKey           `json:"per_key,omitempty"`
	ExpiresAfter Duration          `json:"expires_after"`   // 0: never
	OnExpiry     OnExpiry          `json:"on_expiry"`       // what happens to a job that is not delivered in time
	Durability   Durability        `json:"durability"`      // where a job must be stored before its push is answered
	Remember     Remember          `json:"remember"`        // how long finished jobs are kept
	Shard        string            `json:"shard,omitempty"` // shard for all its jobs; empty: any shard
	Emails       []string          `json:"emails"`
	Owner        string            `json:"owner"`
	Secrets      []string          `json:"secrets,omitempty"` // whsec_…; accepted, never shown (see Public)
	State        TopicState        `json:"state"`
	Locked       bool              `json:"-"` // this host cannot decrypt its secrets and makes no callbacks
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`

	newer []byte // fields that a newer version stored, as a JSON object: a change by this one keeps them
}

// Delivery is how the jobs of a topic reach their workers.
type Delivery string

// Kinds of delivery.
const (
	DeliveryPush Delivery = "push" // a dispatcher calls callback_url
	DeliveryPull Delivery = "pull" // workers reserve them
)

// OnExpiry is what happens to a job that was not delivered before it expired.
type OnExpiry string

// Actions for an expired job.
const (
	ExpiryDead OnExpiry = "dead" // the job becomes dead, with the reason expired
	ExpiryDrop OnExpiry = "drop" // the job is removed
)

// DialectOwn is Wakecall's own dialect: the form of callbacks, responses and retry_if.
const DialectOwn = "wakecall"

// Dialects are the dialects that topics may have. Package app adds those of the gateways.
var Dialects = []string{DialectOwn}

// Durability is where a topic's jobs must be stored before their pushes, changes and deletions are answered.
type Durability string

// Levels of durability.
const (
	DurabilityMemory  Durability = "memory"  // in the memory of one Redis
	DurabilityReplica Durability = "replica" // also in the memory of a replica
)

// TopicState says whether a topic accepts and delivers jobs.
type TopicState string

// States of a topic.
const (
	TopicActive  TopicState = "active"
	TopicPaused  TopicState = "paused"  // accepts pushes, makes no callbacks
	TopicOffline TopicState = "offline" // rejects pushes, makes no callbacks
)

// NewTopic returns a topic with every default. Only the callback URL is missing.
func NewTopic(name string) Topic {
	return Topic{
		Name: name, Delivery: DeliveryPush, OnExpiry: ExpiryDead, Method: "POST", ContentType: "json",
		Headers: map[string]string{}, TTR: Duration(10 * time.Second), Priority: "normal", MaxAttempts: 10,
		Retry:   []Duration{},
		JobURLs: []string{},
		Dialect: DialectOwn,
		Emails:  []string{}, State: TopicActive, Durability: DurabilityMemory, Remember: RememberLast,
	}
}

// IsCalled reports whether dispatchers call the topic's jobs when they are due.
func (t *Topic) IsCalled() bool { return t.State == TopicActive && t.Delivery != DeliveryPull }

// RetryDelay returns the time from the end of attempt n until the next one is due: the n-th entry of the topic's list,
// or its last one, or without a list 2n-1 minutes.
func (t *Topic) RetryDelay(n int) time.Duration {
	n = max(n, 1)
	if len(t.Retry) > 0 {
		return t.Retry[min(n, len(t.Retry))-1].Std()
	}
	return time.Duration(2*n-1) * time.Minute
}

// Public returns the topic without its secrets.
func (t *Topic) Public() Topic {
	p := *t
	p.Secrets = nil
	return p
}

// Topic returns a topic with its own row, or one in a namespace, which need not have any jobs. It returns nil for a
// name without settings.
func (s *Snapshot) Topic(name string) *Topic {
	t := s.TopicOrNamespace(name)
	if t == nil || t.Name == name {
		return t
	}
	if len(name) > MaxMemberName || !memberName.MatchString(name) {
		return nil
	}
	member := *t
	member.Name = name
	return &member
}

// TopicOrNamespace returns the settings that apply to a name: the topic itself, or its namespace, with the namespace's
// name. Unlike Topic it neither checks the name nor copies the namespace, so it is cheap enough for every push.
func (s *Snapshot) TopicOrNamespace(name string) *Topic {
	if t := s.Topics.Get(name); t != nil {
		return t
	}
	return s.Namespace(name)
}

// Namespace returns the namespace of a topic. It returns nil for a topic with its own row, or without a namespace.
func (s *Snapshot) Namespace(topic string) *Topic {
	if s.Topics.Get(topic) != nil || IsNamespace(topic) {
		return nil
	}
	for name := range namespacesOf(topic) {
		if ns := s.Topics.Get(name); ns != nil {
			return ns
		}
	}
	return nil
}
