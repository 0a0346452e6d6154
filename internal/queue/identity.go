package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Each bucket has the number of the format of its data: attend.lua writes it into an empty bucket. The scripts would
// misread, and damage, data of another format.
//
// Bucket 0 has the shard's identity, which the registry has, too, and which stays when the shard gets another name or
// address. So one Redis that is registered under two names is noticed before draining one of them destroys the jobs of
// both. Data without an identity (of a new Redis, or after FLUSHALL), or with one that the registry does not have, gets
// that of the shard; a backup and a replica have the same one.
//
// Each process checks both when it first calls a shard.

// format is the number of the present format.
const format = "2"

// ErrFormat is the error of a shard whose data has another format.
var ErrFormat = errors.New("the data was written by another version of Wakecall: start with an empty Redis and an " +
	"empty data_dir, or drain it with the commit that wrote it")

// SameRedisError is the error of a shard whose data is another shard's.
type SameRedisError struct{ Shard string }

func (e *SameRedisError) Error() string { return "it is the same Redis as shard " + e.Shard }

func identityKey() string { return prefix(0) + "shard" }

func formatKey(bucket int) string { return prefix(bucket) + "format" }

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

// Check returns nil when the shard's data may be used. Errors: ErrFormat, *SameRedisError, or that it does not answer.
// It asks until the data was found to be in order.
func (s *Shard) Check(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	if err := s.CheckFormat(ctx); err != nil {
		return err
	}
	if err := s.identify(ctx); err != nil {
		return err
	}
	s.checked.Store(true)
	return nil
}

// CheckFormat returns ErrFormat when the shard's data has another format.
func (s *Shard) CheckFormat(ctx context.Context) error {
	formats, used := make([]*redis.StringCmd, len(s.nodes)), make([]*redis.IntCmd, len(s.nodes))
	pipe := s.client.Pipeline()
	for b := range s.nodes {
		formats[b], used[b] = pipe.Get(ctx, formatKey(b)), pipe.Exists(ctx, prefix(b)+"rev")
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("read the format of shard %s: %w", s.name, err)
	}
	for b := range s.nodes {
		if has := formats[b].Val(); has != format && (has != "" || used[b].Val() > 0) {
			return fmt.Errorf("shard %s: %w", s.name, ErrFormat)
		}
	}
	return nil
}

func (s *Shard) identify(ctx context.Context) error {
	if s.identity == "" {
		return nil
	}
	if same := s.same.Load(); same != nil {
		is, err := s.Identity(ctx)
		if err != nil {
			return err
		}
		if is == "" { // flushed; the first name recovers its jobs
			return same
		}
	}
	names := s.peers.Names()
	args := []any{s.identity}
	for other := range names {
		if other != s.identity {
			args = append(args, other)
		}
	}
	o, err := s.sendOnly(ctx, 0, identifyScript, args...)
	if err != nil {
		return fmt.Errorf("identify shard %s: %w", s.name, err)
	}
	if is := text(o.Value); is != s.identity {
		same := &SameRedisError{names[is]}
		s.same.Store(same)
		return same
	}
	return nil
}
