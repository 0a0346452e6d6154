package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// The data of each shard says by a key which shard it is: an identity that the registry has, too, and that stays when
// the shard gets another name or address. So one Redis that is registered under two names is noticed, before draining
// one of them destroys the jobs of both. A process asks before it uses a shard, and again when the connection broke. A
// Redis without an identity (a new one, or after FLUSHALL) gets that of the shard; a backup and a replica have the
// same. The second name is not used at all: whatever can be found there is found under the first. Nor is it compared
// with the journals, which would open it without the lines of the first name.

func identityKey() string { return prefix(0) + "shard" }

// sameError is what a shard answers whose data is another shard's.
type sameError struct{ of string }

func (e *sameError) Error() string { return fmt.Sprintf("it is the same Redis as shard %s", e.of) }

// SameAs is the name of the shard that this one is already, under another name; "" for none.
func (s *Shard) SameAs() string {
	if of := s.sameAs.Load(); of != nil {
		return *of
	}
	return ""
}

// Former are the shard's earlier names, with spaces between.
func (s *Shard) Former() string { return s.former }

// Identity is what the shard's data says it is; "" when it does not.
func (s *Shard) Identity(ctx context.Context) (string, error) {
	is, err := s.client.Get(ctx, identityKey()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("ask shard %s for its identity: %w", s.name, err)
	}
	return is, nil
}

// Identify makes sure that the shard's data is its own.
func (s *Shard) Identify(ctx context.Context) error {
	s.identified.Store(false)
	return s.identify(ctx)
}

// identify returns nil when the data is known to be the shard's own. It is called before each script.
func (s *Shard) identify(ctx context.Context) error {
	if s.identity == "" || s.identified.Load() {
		return nil
	}
	names := *s.queue.names.Load()
	is, err := s.Identity(ctx)
	if err != nil {
		return err
	}
	if of := s.SameAs(); is == "" && of != "" { // flushed: it gets back the identity that it had
		return &sameError{of}
	}
	if is != s.identity && names[is] == "" {
		args := []any{s.identity}
		for other := range names {
			if other != s.identity {
				args = append(args, other)
			}
		}
		v, err := s.eval(ctx, 0, "identify", args...)
		if err != nil {
			return fmt.Errorf("give shard %s its identity: %w", s.name, err)
		}
		is, _ = v.(string)
	}
	if is == s.identity {
		s.identified.Store(true)
		s.setSame("")
		return nil
	}
	s.setSame(names[is])
	return &sameError{names[is]}
}

// setSame notes that the shard is another one already, or none, and has the queue leave it out, or use it again.
func (s *Shard) setSame(of string) {
	if s.SameAs() == of {
		return
	}
	s.sameAs.Store(&of)
	if of != "" {
		s.log.Error("the shard is the same Redis as another one, and is not used", "is", of)
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.relist()
}
