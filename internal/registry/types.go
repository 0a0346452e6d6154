package registry

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/registry/seal"
)

// Topic is a kind of job: where and how it is called back. Its JSON form is that of the API, with durations as Go
// durations in text. Missing fields take the defaults of NewTopic.
type Topic struct {
	Name         string            `json:"name"`
	Title        string            `json:"title"`
	Delivery     Delivery          `json:"delivery"`
	CallbackURL  string            `json:"callback_url"` // empty for a pull topic
	Method       string            `json:"method"`       // POST, PUT or GET
	ContentType  string            `json:"content_type"` // json, form
	Headers      map[string]string `json:"headers"`
	Delay        Duration          `json:"delay"` // used when a push sets no delay
	TTR          Duration          `json:"ttr"`
	Priority     string            `json:"priority"`
	MaxAttempts  int               `json:"max_attempts"` // 0: no limit, for pull topics only
	Retry        []Duration        `json:"retry"`        // empty: 1, 3, 5 … minutes
	RetryIf      string            `json:"retry_if"`
	Dialect      string            `json:"dialect"`         // form of callbacks, responses and retry_if
	MaxInFlight  int               `json:"max_in_flight"`   // 0: no limit
	RateLimit    float64           `json:"rate_limit"`      // callbacks a second; 0: no limit
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

// IsCalled reports whether dispatchers call the topic's jobs when they are due.
func (t *Topic) IsCalled() bool { return t.State == TopicActive && t.Delivery != DeliveryPull }

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

// Shard is one Redis deployment that stores jobs.
type Shard struct {
	Name  string     `json:"name"`
	URL   string     `json:"url"` // as in redis.nodes, or ManagedShard; may contain a password: mask it in logs
	State ShardState `json:"state"`
	// Identity identifies its data, see queue.ShardConfig. It does not change with the shard's name or URL.
	Identity string `json:"identity,omitempty"`
	Former   string `json:"former,omitempty"` // former names, separated by spaces
}

// ManagedShard is the URL of the redis-server run by the master. Each installation resolves it to its own data_dir.
const ManagedShard = "managed:"

// ShardState is what a shard is used for.
type ShardState string

// States of a shard.
const (
	ShardActive   ShardState = "active"
	ShardDraining ShardState = "draining" // delivers, accepts no new jobs
	ShardOffline  ShardState = "offline"
)

// Right is what a token allows.
type Right string

// Rights of a token.
const (
	RightPush   Right = "push"
	RightRead   Right = "read"
	RightManage Right = "manage"
	// RightConsume allows a client to reserve jobs of pull topics and to end their leases.
	RightConsume Right = "consume"
	// RightTokens allows a client to list, create and revoke tokens whose rights its own token covers.
	RightTokens Right = "tokens"
)

// Rights are all rights.
var Rights = []Right{RightPush, RightRead, RightManage, RightConsume, RightTokens}

// RightsOf converts names to rights. CreateToken checks them.
func RightsOf(names []string) []Right {
	rights := make([]Right, len(names))
	for i, name := range names {
		rights[i] = Right(name)
	}
	return rights
}

// Token is an API token as the registry stores it: by its hash.
type Token struct {
	ID        uint64     `json:"id"`
	Name      string     `json:"name"`
	Hash      string     `json:"hash"` // hex SHA-256 of the token
	Rights    []Right    `json:"rights"`
	Topics    []string   `json:"topics"` // patterns: *, shop.*, shop.orders
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"` // nil: never
}

// Allows reports whether the token grants a right on a topic.
func (t *Token) Allows(r Right, topic string) bool {
	return slices.Contains(t.Rights, r) && matchAny(t.Topics, topic)
}

// Covers reports whether this token allows everything that the other one does.
func (t *Token) Covers(other *Token) bool {
	lacks := func(r Right) bool { return !slices.Contains(t.Rights, r) }
	excludes := func(pattern string) bool { // a narrower pattern has a longer prefix
		return !matchAny(t.Topics, pattern)
	}
	return !slices.ContainsFunc(other.Rights, lacks) && !slices.ContainsFunc(other.Topics, excludes)
}

// Snapshot is a consistent, immutable view of the registry. Its maps must not be modified.
type Snapshot struct {
	Revision int64 // increases with every change
	Topics   Table[*Topic]
	Shards   []Shard
	Tokens   map[string]*Token          // by Hash
	Settings map[string]json.RawMessage // read them with Setting
	Notes    Table[TopicNote]           // by topic

	key    seal.Key  // opens what is sealed in Settings
	readAt time.Time // when it was read from the database; zero: read from the file
	mark   string    // the revision's mark in the change log; empty: none
}
