package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/log/printable"
)

// A host is absent from a bucket while only its journal may have changes that the data lost (see open_bucket.lua). The
// bucket is open, but an id that it does not have may be in that journal: requests for it are refused until the
// host has replayed its journal, or an operator says that it will not be back. The same holds for a push that keeps an
// existing job. Pushes that replace one, and those whose id was just made, are newer than all that the journal has.

// Absent is the reason of an UnavailableError about such an id.
const Absent = "absent"

// absentRetry is how long a client should wait before it repeats a request that only an absent host can answer.
const absentRetry = 10 * time.Second

// IsAbsent reports whether only the journal of an absent host can answer.
func IsAbsent(err error) bool {
	un, ok := errors.AsType[*UnavailableError](err)
	return ok && un.Reason == Absent
}

// Awaits returns an error that names the absent hosts of the bucket, nil without any.
func (b *Bucket) Awaits(ctx context.Context) error {
	began := time.Now()
	hosts, err := b.shard.client.HKeys(ctx, b.Key("absent")).Result()
	if err != nil {
		return b.Failed(ctx, began, err)
	}
	if len(hosts) == 0 {
		return nil
	}
	slices.Sort(hosts)
	return &UnavailableError{Reason: Absent, RetryAfter: absentRetry, Err: fmt.Errorf(
		"shard %s has lost data, and only the journal of %s may have this job: start that host, or, if it will not be "+
			"back, run %s", b.shard.name, strings.Join(hosts, " or "),
		printable.Command("wakecall host forget", hosts...))}
}

// storeEarly stores those of the pushes that no journal can know of or that replace what it knows, when a bucket is
// being compared or has absent hosts. why is the error of the others, unless their job exists.
func (b *Bucket) storeEarly(
	ctx context.Context, d Durability, pushes []Push, why *UnavailableError,
) (results []Result, unsafe error) {
	results = failAll(len(pushes), why)
	var which, others []int
	var early []Push
	for i := range pushes {
		if pushes[i].mayBeEarly(why) {
			which, early = append(which, i), append(early, pushes[i])
		} else {
			others = append(others, i)
		}
	}
	if why.Reason == Absent && len(others) > 0 {
		b.findEarly(ctx, pushes, others, results)
	}
	if len(early) == 0 {
		return results, nil
	}
	stored, unsafe, err := b.storeBy(ctx, pushEarlyScript, d, early)
	if err != nil {
		stored = failAll(len(early), err)
	}
	for k, i := range which {
		results[i] = stored[k]
	}
	return results, unsafe
}

// mayBeEarly reports whether no journal can override a push. Before the comparison it is not known which groups are
// closed.
func (p *Push) mayBeEarly(why *UnavailableError) bool {
	return (p.Fresh || p.OnDuplicate == Replace) && (p.Group == "" || why.Reason != ReasonComparing)
}

// findEarly answers pushes whose job exists, and the others with the names of the absent hosts.
func (b *Bucket) findEarly(ctx context.Context, pushes []Push, which []int, results []Result) {
	refs := make([]Ref, len(which))
	for k, i := range which {
		refs[k] = Ref{pushes[i].Topic, pushes[i].ID}
	}
	found, err := Live(b.shard.Read(ctx, refs))
	if err == nil {
		err = b.Awaits(ctx)
	}
	for k, i := range which {
		switch {
		case found[k] != nil:
			results[i] = DuplicateOf(&pushes[i], found[k])
		case err != nil:
			results[i].Err = err
		}
	}
}
