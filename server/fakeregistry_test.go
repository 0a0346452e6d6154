package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

// fakeRegistry keeps topics in memory.
type fakeRegistry struct {
	refreshes atomic.Int32

	mu       sync.Mutex
	snapshot *registry.Snapshot
	fail     error
	actor    string
	uses     []string // of tokens, as they were stored
	reasons  []string // of pauses: ACTOR: TOPIC: REASON

	meanwhile func() // called before topics are put: another process is faster
}

func (f *fakeRegistry) Snapshot() *registry.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}

// edit makes a new snapshot, as the registry does: the old one is never modified.
func (f *fakeRegistry) edit(change func(*registry.Snapshot)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := &registry.Snapshot{Topics: f.snapshot.Topics, Tokens: map[string]*registry.Token{},
		Shards: f.snapshot.Shards, Schedules: f.snapshot.Schedules, Notes: f.snapshot.Notes}
	maps.Copy(next.Tokens, f.snapshot.Tokens)
	change(next)
	f.snapshot = next
}

func (f *fakeRegistry) PutTopics(
	_ context.Context, actor string, topics []registry.Topic, conditions ...registry.Condition,
) ([]registry.Done, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	f.actor = actor
	if f.meanwhile != nil {
		f.meanwhile()
	}
	var done []registry.Done
	for _, topic := range topics {
		old := f.Snapshot().Topics.Get(topic.Name)
		if err := f.check(old, conditions); err != nil {
			return nil, err
		}
		topic.CreatedAt, topic.UpdatedAt = time.Now(), time.Now()
		if old != nil && topic.Secrets == nil {
			topic.Secrets = old.Secrets
		}
		f.edit(func(s *registry.Snapshot) { s.Topics = s.Topics.With(topic.Name, &topic) })
		if old == nil {
			done = append(done, registry.TopicCreated)
			continue
		}
		done = append(done, registry.TopicChanged)
	}
	return done, nil
}

func (f *fakeRegistry) check(was *registry.Topic, conditions []registry.Condition) error {
	for _, holds := range conditions {
		if !holds(was) {
			return registry.ErrChanged
		}
	}
	return nil
}

func (f *fakeRegistry) DeleteTopic(
	_ context.Context, actor, name string, force bool, conditions ...registry.Condition,
) error {
	if f.fail != nil {
		return f.fail
	}
	if err := f.check(f.Snapshot().Topics.Get(name), conditions); err != nil {
		return err
	}
	if err := f.Snapshot().TopicInUse(name); err != nil && !force {
		return err
	}
	f.actor = actor
	f.edit(func(s *registry.Snapshot) {
		topics := maps.Collect(s.Topics.All())
		delete(topics, name)
		s.Topics = registry.NewTopics(slices.Collect(maps.Values(topics))...)
	})
	return nil
}

func (f *fakeRegistry) SetPauseReason(_ context.Context, actor, topic, reason string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reasons = append(f.reasons, actor+": "+topic+": "+reason)
	return f.fail
}

func (f *fakeRegistry) PauseTopic(_ context.Context, actor, topic string, p registry.Pause) error {
	if f.Snapshot().Topics.Get(topic).State == registry.TopicOffline {
		return fmt.Errorf("topic %s: %w", topic, registry.ErrOffline)
	}
	if err := registry.ValidReason(p.Reason); err != nil {
		return err
	}
	return f.setState(actor, topic, registry.TopicPaused,
		registry.TopicNote{PauseReason: p.Reason, PausedUntil: p.Until})
}

func (f *fakeRegistry) ResumeTopic(_ context.Context, actor, topic string) error {
	return f.setState(actor, topic, registry.TopicActive, registry.TopicNote{})
}

func (f *fakeRegistry) setState(actor, topic string, state registry.TopicState, note registry.TopicNote) error {
	f.actor = actor
	f.edit(func(s *registry.Snapshot) {
		next := *s.Topics.Get(topic)
		next.State = state
		s.Topics, s.Notes = s.Topics.With(topic, &next), s.Notes.With(topic, note)
	})
	return f.fail
}

func (f *fakeRegistry) ListTokens() []*registry.Token {
	return slices.SortedFunc(maps.Values(f.Snapshot().Tokens), func(a, b *registry.Token) int {
		return strings.Compare(a.Name, b.Name)
	})
}

func (f *fakeRegistry) CreateToken(
	_ context.Context, actor, name string, rights []registry.Right, topics []string, expires *time.Time,
	with ...func(*registry.Token),
) (string, *registry.Token, error) {
	if f.fail != nil {
		return "", nil, f.fail
	}
	f.actor = actor
	secret := f.grant(name, strings.Join(topics, " "), rights...)
	token := f.Snapshot().Tokens[hashOf(secret)]
	token.ID, token.ExpiresAt, token.CreatedAt = uint64(1000+len(f.Snapshot().Tokens)), expires, time.Now()
	for _, set := range with {
		set(token)
	}
	return secret, token, nil
}

func (f *fakeRegistry) SetQuotas(_ context.Context, actor string, id uint64, q *registry.Quotas) error {
	f.actor = actor
	for _, t := range f.Snapshot().Tokens {
		if t.ID == id {
			t.Quotas = q
		}
	}
	return f.fail
}

func (f *fakeRegistry) RevokeToken(_ context.Context, actor string, id uint64) error {
	if f.fail != nil {
		return f.fail
	}
	f.actor = actor
	f.edit(func(s *registry.Snapshot) {
		maps.DeleteFunc(s.Tokens, func(_ string, t *registry.Token) bool { return t.ID == id })
	})
	return nil
}

func (f *fakeRegistry) TokenUses(context.Context) (map[uint64]time.Time, error) {
	return map[uint64]time.Time{1: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}, f.fail
}

func (f *fakeRegistry) NoteTokenUses(_ context.Context, ids []uint64, at time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uses = append(f.uses, fmt.Sprint(ids, at.UTC().Format(" 15:04:05")))
	return f.fail
}

// storedUses returns the uses stored since the last call.
func (f *fakeRegistry) storedUses() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	uses := f.uses
	f.uses = nil
	return uses
}

func (f *fakeRegistry) Refresh(context.Context) { f.refreshes.Add(1) }

func (f *fakeRegistry) Up() bool { return f.fail == nil }

func newFakeRegistry() *fakeRegistry {
	s := &registry.Snapshot{
		Tokens: map[string]*registry.Token{},
		Shards: []registry.Shard{{Name: "one", State: registry.ShardActive},
			{Name: "old", State: registry.ShardOffline}},
	}
	for _, name := range []string{"shop.orders", "shop.mail", "bank.loans", "shop.paused", "shop.offline"} {
		topic := registry.NewTopic(name)
		topic.CallbackURL = "http://127.0.0.1/" + name
		s.Topics = s.Topics.With(name, &topic)
	}
	s.Topics.Get("shop.paused").State = registry.TopicPaused
	s.Topics.Get("shop.offline").State = registry.TopicOffline
	s.Topics.Get("shop.mail").Priority = "low"
	s.Topics.Get("shop.mail").Delay = registry.Duration(time.Hour)
	s.Topics.Get("shop.mail").Secrets = []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	return &fakeRegistry{snapshot: s}
}

// grant creates a token and returns its secret.
func (f *fakeRegistry) grant(name, topics string, rights ...registry.Right) string {
	secret := "wk_" + name
	f.edit(func(s *registry.Snapshot) {
		hash := hashOf(secret)
		s.Tokens[hash] = &registry.Token{Name: name, Hash: hash, Rights: rights, Topics: strings.Fields(topics)}
	})
	return secret
}

func (f *fakeRegistry) revoke(secret string) {
	f.edit(func(s *registry.Snapshot) { delete(s.Tokens, hashOf(secret)) })
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
