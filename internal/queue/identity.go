package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// A key in the data of each shard holds its identity. The registry stores the same identity, which stays when the shard
// gets another name or address. So a process notices one Redis that is registered under two names, before draining one
// of them destroys the jobs of both. It reads the identity before it uses a shard, and again after the connection
// broke. A Redis without an identity (a new one, or after FLUSHALL) gets that of the shard; a backup and a replica have
// the same one. The second name is not used at all: its jobs are found under the first. Nor is it compared with the
// journals, which would open it without the lines of the first name.

func identityKey() string { return prefix(0) + "shard" }

// sameError is the error of a shard whose data has the identity of another shard.
type sameError struct{ of string }

func (e *sameError) Error() string { return fmt.Sprintf("it is the same Redis as shard %s", e.of) }

// SameAs returns the name of the shard that uses the same Redis, when this one is only a second name of it; otherwise
// "".
func (s *Shard) SameAs() string {
	if of := s.sameAs.Load(); of != nil {
		return *of
	}
	return ""
}

// Former returns the shard's earlier names, separated by spaces.
func (s *Shard) Former() string { return s.former }

// Identity returns the identity in the shard's data; "" for none.
func (s *Shard) Identity(ctx context.Context) (string, error) {
	is, err := s.client.Get(ctx, identityKey()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read the identity of shard %s: %w", s.name, err)
	}
	return is, nil
}

// Identify checks that the shard's data is its own.
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
	if of := s.SameAs(); is == "" && of != "" { // flushed: it gets its identity back
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

// setSame records that the shard is a second name of another one, or of none (""), and makes the queue leave it out, or
// use it again.
func (s *Shard) setSame(of string) {
	if s.SameAs() == of {
		return
	}
	s.sameAs.Store(&of)
	if of != "" {
		s.log.Error("the shard is not used: it is the same Redis as another one", "is", of)
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.relist()
}
