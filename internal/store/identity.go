package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Each bucket has the number of the format of its data: attend.lua writes it into an empty bucket. The scripts would
// misread, and damage, data of another format.
//
// Each bucket has the shard's identity, which the registry has, too, and which stays when the shard gets another name
// or address. So one Redis that is registered under two names is noticed before draining one of them destroys the jobs
// of both. Data without an identity (of a new Redis, or after FLUSHALL), or with one that the registry does not have,
// gets that of the shard; a backup and a replica have the same one. Bucket 0 gets it first, so that of two names of a
// new Redis the same one is refused in all buckets.
//
// Each process checks both when it first calls a bucket: a bucket whose data is in order can be used, whatever the
// servers of the others do.

// Format is the number of the present format.
const Format = "4"

// ErrFormat is the error of a shard whose data has another format.
var ErrFormat = errors.New("the data was written by another version of Wakecall: start with an empty Redis and an " +
	"empty data_dir, or drain it with the commit that wrote it")

// SameRedisError is the error of a shard whose data is another shard's.
type SameRedisError struct{ Shard string }

func (e *SameRedisError) Error() string { return "it is the same Redis as shard " + e.Shard }

func identityKey(bucket int) string { return Prefix(bucket) + "shard" }

func formatKey(bucket int) string { return Prefix(bucket) + "format" }

// Former returns the shard's earlier names, separated by spaces.
func (s *Shard) Former() string { return s.former }

// Identity returns the identity in the shard's data; "" for none.
func (s *Shard) Identity(ctx context.Context) (string, error) { return s.identityOf(ctx, 0) }

func (s *Shard) identityOf(ctx context.Context, bucket int) (string, error) {
	is, err := s.client.Get(ctx, identityKey(bucket)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read the identity of shard %s: %w", s.name, err)
	}
	return is, nil
}

// Check returns nil when the data of all buckets may be used. Errors: ErrFormat, *SameRedisError, or that one does not
// answer.
func (s *Shard) Check(ctx context.Context) error {
	if err := s.CheckFormat(ctx); err != nil {
		return err
	}
	for b := range s.nodes {
		if err := s.check(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// CheckFormat returns ErrFormat when the data of a bucket has another format.
func (s *Shard) CheckFormat(ctx context.Context) error {
	errs := make([]error, len(s.nodes))
	var wg sync.WaitGroup
	for b := range s.nodes {
		wg.Go(func() { errs[b] = s.checkFormat(ctx, b) })
	}
	wg.Wait()
	for _, err := range errs {
		if errors.Is(err, ErrFormat) {
			return err
		}
	}
	return cmp.Or(errs...)
}

// check is Check for a bucket. It asks until the data was found to be in order.
func (s *Shard) check(ctx context.Context, bucket int) error {
	n := s.nodes[bucket]
	if n.checked.Load() {
		return nil
	}
	if err := s.checkFormat(ctx, bucket); err != nil {
		return err
	}
	if err := s.identify(ctx, bucket); err != nil {
		return err
	}
	n.checked.Store(true)
	return nil
}

func (s *Shard) checkFormat(ctx context.Context, bucket int) error {
	pipe := s.client.Pipeline()
	has, used := pipe.Get(ctx, formatKey(bucket)), pipe.Exists(ctx, Prefix(bucket)+"rev")
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("read the format of shard %s: %w", s.name, err)
	}
	if has.Val() != Format && (has.Val() != "" || used.Val() > 0) {
		return fmt.Errorf("shard %s: %w", s.name, ErrFormat)
	}
	return nil
}

func (s *Shard) identify(ctx context.Context, bucket int) error {
	if s.identity == "" {
		return nil
	}
	n := s.nodes[bucket]
	is, err := s.identityOf(ctx, bucket)
	if err != nil || is == s.identity {
		return err
	}
	if same := n.same.Load(); same != nil && is == "" { // flushed; the first name recovers its jobs
		return same
	}
	if bucket > 0 {
		if err := s.check(ctx, 0); err != nil {
			return err
		}
	}
	names := s.peers.Names()
	args := []any{s.identity}
	for other := range names {
		if other != s.identity {
			args = append(args, other)
		}
	}
	o, err := s.sendOnly(ctx, bucket, identifyScript, args...)
	if err != nil {
		return fmt.Errorf("identify shard %s: %w", s.name, err)
	}
	if is := Text(o.Value); is != s.identity {
		same := &SameRedisError{names[is]}
		n.same.Store(same)
		return same
	}
	return nil
}
