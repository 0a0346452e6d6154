package registry

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/wakecall/wakecall/seal"
)

// Topic is a kind of job: where and how it is called back. The JSON form is the API's; durations are Go durations in
// text. Missing fields take the defaults of NewTopic.
type Topic struct {
	Name         string            `json:"name"`
	Title        string            `json:"title"`
	Delivery     Delivery          `json:"delivery"`
	CallbackURL  string            `json:"callback_url"` // of a pull topic empty
	Method       string            `json:"method"`       // POST, PUT or GET
	ContentType  string            `json:"content_type"` // json, form
	Headers      map[string]string `json:"headers"`
	Delay        Duration          `json:"delay"` // of a push that names none
	TTR          Duration          `json:"ttr"`
	Priority     string            `json:"priority"`
	MaxAttempts  int               `json:"max_attempts"` // 0, of a pull topic only: no limit
	Retry        []Duration        `json:"retry"`        // empty: 1, 3, 5 … minutes
	RetryIf      string            `json:"retry_if"`
	Dialect      string            `json:"dialect"`         // of the callback
	MaxInFlight  int               `json:"max_in_flight"`   // 0: no limit
	RateLimit    float64           `json:"rate_limit"`      // callbacks a second; 0: no limit
	ExpiresAfter Duration          `json:"expires_after"`   // 0: never
	OnExpiry     OnExpiry          `json:"on_expiry"`       // what becomes of a job that is not delivered in time
	Durability   Durability        `json:"durability"`      // where a job must be before its push is answered
	Remember     Remember          `json:"remember"`        // for how long finished jobs can be found
	Shard        string            `json:"shard,omitempty"` // takes all of its jobs; empty: they are spread
	Emails       []string          `json:"emails"`
	Owner        string            `json:"owner"`
	Secrets      []string          `json:"secrets,omitempty"` // whsec_…; accepted, never shown (see Public)
	State        TopicState        `json:"state"`
	Locked       bool              `json:"-"` // its secrets cannot be opened on this host: it makes no callbacks
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
}

// Delivery is how the jobs of a topic reach their workers.
type Delivery string

// The deliveries of a topic.
const (
	DeliveryPush Delivery = "push" // a dispatcher calls callback_url
	DeliveryPull Delivery = "pull" // workers reserve them
)

// OnExpiry is what becomes of a job that was not delivered before it expired.
type OnExpiry string

// What an expired job may become.
const (
	ExpiryDead OnExpiry = "dead" // dead with the reason expired
	ExpiryDrop OnExpiry = "drop" // removed
)

// The dialects of a topic: the form of the callback, of its answer and of retry_if.
const (
	DialectOwn   = "wakecall"
	DialectPHPDQ = "phpdq" // php-delayqueue's
)

// Durability is where a topic's jobs must be stored before their pushes, changes and deletions are answered.
type Durability string

// The durabilities of a topic.
const (
	DurabilityMemory  Durability = "memory"  // in the memory of a Redis
	DurabilityReplica Durability = "replica" // in that of a replica, too
)

// stored is what a topic's stored durability means: none is memory, and fsync, which earlier versions had, is
// replica, so that no topic becomes less safe without notice.
func (d Durability) stored() Durability {
	switch d {
	case "":
		return DurabilityMemory
	case "fsync":
		return DurabilityReplica
	}
	return d
}

// TopicState is whether a topic accepts and delivers jobs.
type TopicState string

// The states of a topic.
const (
	TopicActive  TopicState = "active"
	TopicPaused  TopicState = "paused"  // takes pushes, calls nobody back
	TopicOffline TopicState = "offline" // refuses pushes, calls nobody back
)

// Shard is one Redis deployment that stores jobs.
type Shard struct {
	Name  string     `json:"name"`
	URL   string     `json:"url"` // as in redis.nodes, or ManagedShard; it may contain a password: mask it in logs
	State ShardState `json:"state"`
	// Identity is what its data is known by, see queue.ShardConfig. It stays when the shard gets another name or URL.
	Identity string `json:"identity,omitempty"`
	Former   string `json:"former,omitempty"` // its earlier names, with spaces between
}

// ManagedShard is the URL of the redis-server that the master runs itself; each installation resolves it in its own
// data_dir.
const ManagedShard = "managed:"

// ShardState is what a shard is used for.
type ShardState string

// The states of a shard.
const (
	ShardActive   ShardState = "active"
	ShardDraining ShardState = "draining" // delivers, takes no new jobs
	ShardOffline  ShardState = "offline"
)

// Right is what a token allows.
type Right string

// The rights of a token.
const (
	RightPush   Right = "push"
	RightRead   Right = "read"
	RightManage Right = "manage"
	// RightConsume allows to reserve jobs of pull topics and to end their leases.
	RightConsume Right = "consume"
	// RightTokens allows to list, make and revoke tokens that the token itself covers.
	RightTokens Right = "tokens"
)

// Rights are all rights.
var Rights = []Right{RightPush, RightRead, RightManage, RightConsume, RightTokens}

// RightsOf are rights by their names, which CreateToken checks.
func RightsOf(names []string) []Right {
	rights := make([]Right, len(names))
	for i, name := range names {
		rights[i] = Right(name)
	}
	return rights
}

// Token is an API token as the registry knows it: by its hash.
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

// Covers reports whether another token allows nothing that this one does not.
func (t *Token) Covers(other *Token) bool {
	lacks := func(r Right) bool { return !slices.Contains(t.Rights, r) }
	excludes := func(pattern string) bool { // what a pattern begins with is longer in a narrower one
		return !matchAny(t.Topics, pattern)
	}
	return !slices.ContainsFunc(other.Rights, lacks) && !slices.ContainsFunc(other.Topics, excludes)
}

// Snapshot is a consistent, immutable view of the registry. Its maps must not be written to.
type Snapshot struct {
	Revision int64 // grows with every change
	Topics   Table[*Topic]
	Shards   []Shard
	Tokens   map[string]*Token          // by Hash
	Settings map[string]json.RawMessage // read them with Setting
	Notes    Table[TopicNote]           // by topic

	key    seal.Key  // of what is sealed in Settings
	readAt time.Time // when it was read from the database; zero: it was not
	mark   string    // of the revision in the change log; empty: it has none
}
