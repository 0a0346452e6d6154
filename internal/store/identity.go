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

// Former returns the shard's earlier names, separated by spaces.
func (s *Shard) Former() string { return s.former }

// Identity returns the identity in the shard's data; "" for none.
func (s *Shard) Identity(ctx context.Context) (string, error) { return s.buckets[0].identityOf(ctx) }

func (b *Bucket) identityOf(ctx context.Context) (string, error) {
	is, err := b.shard.client.Get(ctx, b.Key("shard")).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read the identity of shard %s: %w", b.shard.name, err)
	}
	return is, nil
}

// Check returns nil when the data of all buckets may be used. Errors: ErrFormat, *SameRedisError, or that one does not
// answer.
func (s *Shard) Check(ctx context.Context) error {
	if err := s.CheckFormat(ctx); err != nil {
		return err
	}
	for _, b := range s.buckets {
		if err := b.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// CheckFormat returns ErrFormat when the data of a bucket has another format.
func (s *Shard) CheckFormat(ctx context.Context) error {
	errs := make([]error, len(s.buckets))
	var wg sync.WaitGroup
	for i, b := range s.buckets {
		wg.Go(func() { errs[i] = b.checkFormat(ctx) })
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
func (b *Bucket) check(ctx context.Context) error {
	if b.checked.Load() {
		return nil
	}
	if err := b.checkFormat(ctx); err != nil {
		return err
	}
	if err := b.identify(ctx); err != nil {
		return err
	}
	b.checked.Store(true)
	return nil
}

func (b *Bucket) checkFormat(ctx context.Context) error {
	pipe := b.shard.client.Pipeline()
	has, used := pipe.Get(ctx, b.Key("format")), pipe.Exists(ctx, b.Key("rev"))
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("read the format of shard %s: %w", b.shard.name, err)
	}
	if has.Val() != Format && (has.Val() != "" || used.Val() > 0) {
		return fmt.Errorf("shard %s: %w", b.shard.name, ErrFormat)
	}
	return nil
}

func (b *Bucket) identify(ctx context.Context) error {
	if b.shard.identity == "" {
		return nil
	}
	is, err := b.identityOf(ctx)
	if err != nil || is == b.shard.identity {
		return err
	}
	if same := b.same.Load(); same != nil && is == "" { // flushed; the first name recovers its jobs
		return same
	}
	if first := b.shard.buckets[0]; b != first {
		if err := first.check(ctx); err != nil {
			return err
		}
	}
	names := b.shard.peers.Names()
	args := []any{b.shard.identity}
	for other := range names {
		if other != b.shard.identity {
			args = append(args, other)
		}
	}
	o, err := b.SendOnly(ctx, identifyScript, args...)
	if err != nil {
		return fmt.Errorf("identify shard %s: %w", b.shard.name, err)
	}
	if is := Text(o.Value); is != b.shard.identity {
		same := &SameRedisError{names[is]}
		b.same.Store(same)
		return same
	}
	return nil
}
