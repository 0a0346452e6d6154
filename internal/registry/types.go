package registry

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/registry/seal"
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
	// RightSchedule allows a client to make, change and delete schedules.
	RightSchedule Right = "schedule"
	// RightTokens allows a client to list, create and revoke tokens whose rights its own token covers.
	RightTokens Right = "tokens"
)

// Rights are all rights.
var Rights = []Right{RightPush, RightRead, RightManage, RightConsume, RightSchedule, RightTokens}

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
	Hash      string     `json:"hash,omitempty"` // hex SHA-256 of the token
	Rights    []Right    `json:"rights"`
	Topics    []string   `json:"topics"` // patterns: *, shop.*, shop.orders
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"` // nil: never
	Quotas    *Quotas    `json:"quotas,omitempty"`
	MadeBy    uint64     `json:"made_by,omitzero"` // the token that made it over the API
}

// ShownToken is a token as the API and the command line show it.
type ShownToken struct {
	Token                 // without its hash
	LastUsedAt *time.Time `json:"last_used_at"`
	Used       *Quotas    `json:"used,omitempty"`  // now, of its quotas
	Secret     string     `json:"token,omitempty"` // only of a new one
}

// Shown returns the token for people; used is when it was last used.
func (t *Token) Shown(used time.Time) ShownToken {
	shown := ShownToken{Token: *t}
	shown.Hash = ""
	if !used.IsZero() {
		shown.LastUsedAt = &used
	}
	return shown
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
	Revision  int64 // increases with every change
	Topics    Table[*Topic]
	Shards    []Shard
	Tokens    map[string]*Token          // by Hash
	Settings  map[string]json.RawMessage // read them with Setting
	Schedules Table[*Schedule]           // by name
	Notes     Table[TopicNote]           // by topic

	limited map[uint64][]*Token // tokens whose quotas count for a token, by its ID; nil: no token has quotas

	key    seal.Key  // opens what is sealed in Settings
	readAt time.Time // when it was read from the database; zero: read from the file
	mark   string    // the revision's mark in the change log; empty: none
}

// OwnerOf returns the owner of a topic; empty: it has none, or is unknown.
func (s *Snapshot) OwnerOf(topic string) string {
	if t := s.Topics.Get(topic); t != nil {
		return t.Owner
	}
	return ""
}

// Tenant returns the ID of the token that a token counts with under limits: the oldest that can have made it, or
// itself. Tokens for all topics make tokens for several tenants.
func (s *Snapshot) Tenant(t *Token) uint64 {
	tenant := t.ID
	for _, by := range s.Tokens {
		if by.ID < tenant && slices.Contains(by.Rights, RightTokens) && by.Covers(t) &&
			!slices.Contains(by.Topics, "*") {
			tenant = by.ID
		}
	}
	return tenant
}
