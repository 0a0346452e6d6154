package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/wakecall/wakecall/internal/store"
)

// Shards are the shards of the registry that are not offline. Its methods may be called from any goroutine.
type Shards struct {
	opts    store.Options
	resync  func(context.Context, *store.Shard) error // sets the topics' limits on a shard again
	catchUp catchUp
	all     atomic.Pointer[[]*store.Shard]    // by name
	names   atomic.Pointer[map[string]string] // identity → name, for all shards of the registry
	active  atomic.Pointer[[]*store.Shard]    // read at once: one by one, all may seem inactive
	turn    atomic.Uint64                     // counts calls of Divide: each begins with another shard

	mu      sync.Mutex                   // guards the following and changes to the others
	retired map[*store.Shard]*time.Timer // no longer in use, until they are closed
}

// retireAfter is how long a shard that is no longer in use stays open, so that running callbacks can be settled.
const retireAfter = time.Minute

type catchUp func(ctx context.Context, b *store.Bucket, lost bool) (all bool, err error)

func newShards(
	o store.Options, resync func(context.Context, *store.Shard) error, catchUp catchUp,
) *Shards {
	s := &Shards{opts: o, resync: resync, catchUp: catchUp, retired: map[*store.Shard]*time.Timer{}}
	s.all.Store(&[]*store.Shard{})
	s.active.Store(&[]*store.Shard{})
	return s
}

// Set makes the queue use these shards. It leaves out shards that it cannot open (with a wrong URL), and names them in
// the error.
func (s *Shards) Set(configs []store.ShardConfig) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := map[string]*store.Shard{}
	for _, one := range *s.all.Load() {
		old[one.Name()] = one
	}
	names := map[string]string{}
	for _, c := range configs {
		if c.Identity != "" {
			names[c.Identity] = c.Name
		}
	}
	s.names.Store(&names)
	list, active := []*store.Shard{}, []*store.Shard{}
	var errs []error
	for _, c := range configs {
		if c.State == "offline" {
			continue
		}
		one := old[c.Name]
		if one != nil && one.IsOf(c) {
			delete(old, c.Name)
		} else {
			var err error
			if one, err = s.open(c); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		one.SetState(c.State)
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b *store.Shard) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, one := range list {
		if one.State() == "active" {
			active = append(active, one)
		}
	}
	s.all.Store(&list)
	s.active.Store(&active)
	for _, one := range old {
		s.retire(one)
	}
	return errors.Join(errs...)
}

func (s *Shards) open(c store.ShardConfig) (*store.Shard, error) {
	one, err := store.OpenShard(c, s.opts, store.Peers{
		Names:  func() map[string]string { return *s.names.Load() },
		Takers: func() int { return len(*s.active.Load()) },
		Resync: s.resync, CatchUp: s.catchUp, Behind: s.behind,
	})
	if err == nil && s.opts.Announced != nil {
		one.Start(func() { one.Announcements(s.opts.Announced) })
		one.Start(one.KeepTopics)
	}
	return one, err
}

// behind makes the buckets of all other shards catch up with a shard.
func (s *Shards) behind(with *store.Shard) {
	for _, one := range *s.all.Load() {
		for _, b := range one.Buckets() {
			if one != with {
				b.Behind()
			}
		}
	}
}

// retire closes a shard after a while. s.mu is held.
func (s *Shards) retire(one *store.Shard) {
	s.retired[one] = time.AfterFunc(retireAfter, func() {
		if err := one.Close(); err != nil {
			s.opts.Logger.Warn("closing a shard that is no longer in use failed", "shard", one.Name(), "error", err)
		}
		s.mu.Lock()
		delete(s.retired, one)
		s.mu.Unlock()
	})
}

func (s *Shards) close() error {
	s.mu.Lock()
	list := *s.all.Swap(&[]*store.Shard{})
	for one, t := range s.retired {
		if t.Stop() {
			list = append(list, one)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, one := range list {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// All returns the shards by name.
func (s *Shards) All() []*store.Shard { return slices.Clone(*s.all.Load()) }

// Buckets returns the buckets of all shards, in the order of drainingFirst.
func (s *Shards) Buckets() (list []*store.Bucket) {
	for _, one := range s.drainingFirst() {
		list = append(list, one.Buckets()...)
	}
	return list
}

// Named returns the shard that has a name, or else one that had it: a lease has the name at its time.
func (s *Shards) Named(name string) (former *store.Shard) {
	for _, one := range *s.all.Load() {
		if one.Name() == name {
			return one
		}
		if slices.Contains(strings.Fields(one.Former()), name) {
			former = one
		}
	}
	return former
}

// ready returns nil when a shard can accept a push now, otherwise the reason.
func (s *Shards) ready() error {
	err := errors.New("no shard is active: register one, or set redis.nodes")
	for _, one := range *s.active.Load() {
		if err = one.Proven(); err == nil {
			return nil
		}
		err = fmt.Errorf("shard %s does not answer: %w", one.Name(), err)
	}
	return err
}

// activeFor lists the shards for a push: the one that the topic is pinned to, then the others in the order of
// rendezvous hashing. The first is the home of the id; the next takes its jobs while the home is down.
func (s *Shards) activeFor(topic, id string) []*store.Shard {
	return s.ranked(*s.active.Load(), topic, id)
}

// homeOf returns what decides, with the topic, where the home of a job is: its key, so that one shard counts the calls
// of the key, else its id.
func homeOf(id, key string) string { return cmp.Or(key, id) }

// order lists the shards that may have a job: active ones as in activeFor, then the others.
func (s *Shards) order(topic, id string) []*store.Shard {
	list := slices.Clone(s.ranked(*s.all.Load(), topic, id))
	inactive := func(one *store.Shard) int {
		if one.State() == "active" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b *store.Shard) int { return inactive(a) - inactive(b) })
	return list
}

// searchOrder is order, with the active shards again after draining ones: a job may have been moved there meanwhile.
func (s *Shards) searchOrder(topic, id string) []*store.Shard {
	order := s.order(topic, id)
	if n := len(order); n > 0 && order[n-1].State() == "draining" {
		order = append(order, s.activeFor(topic, id)...)
	}
	return order
}

// drainingFirst lists all shards, draining ones first, so that no job that is being moved is missed: it is in the
// draining shard, or afterwards in an active one.
func (s *Shards) drainingFirst() []*store.Shard {
	list := s.All()
	slices.SortStableFunc(list, func(a, b *store.Shard) int { return strings.Compare(b.State(), a.State()) })
	return list
}

func (s *Shards) ranked(list []*store.Shard, topic, id string) []*store.Shard {
	list = ByWeight(list, topic, id)
	if len(list) < 2 || s.opts.Pinned == nil {
		return list
	}
	name := s.opts.Pinned(topic)
	if at := slices.IndexFunc(list, func(one *store.Shard) bool { return one.Name() == name }); at > 0 {
		home := list[at] // ByWeight made the list, so it may be changed
		copy(list[1:], list[:at])
		list[0] = home
	}
	return list
}

// ByWeight sorts shards by rendezvous hashing.
func ByWeight(shards []*store.Shard, topic, id string) []*store.Shard {
	if len(shards) <= 1 {
		return shards
	}
	h := xxhash.New()
	_, _ = h.WriteString(topic)
	_, _ = h.Write([]byte{0})
	_, _ = h.WriteString(id)
	sum := h.Sum64()
	list := slices.Clone(shards)
	slices.SortFunc(list, func(a, b *store.Shard) int { return cmp.Compare(b.Weight(sum), a.Weight(sum)) })
	return list
}

// search asks the buckets that may have a job until one has it. If none has it and one did not answer, it returns that
// one's error.
func (s *Shards) search(topic, id string, ask func(*store.Bucket) (found bool, err error)) error {
	var missed error
	for _, one := range s.searchOrder(topic, id) {
		found, err := ask(one.BucketOf(topic))
		var un *store.UnavailableError
		switch {
		case errors.As(err, &un):
			missed = err
		case err != nil || found:
			return err
		}
	}
	if missed != nil {
		return missed
	}
	return fmt.Errorf("%s/%s: %w", topic, id, store.ErrNotFound)
}

// orAbsent returns err, or instead of ErrNotFound an *UnavailableError when the journal of an absent host may have the
// job.
func (s *Shards) orAbsent(ctx context.Context, topic, id string, err error) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, one := range s.order(topic, id) {
		if away := one.BucketOf(topic).Awaits(ctx); away != nil {
			return fmt.Errorf("%s/%s: %w", topic, id, away)
		}
	}
	return err
}

// PartialError accompanies an answer in which some shards are missing.
type PartialError struct {
	Shards []string
	Err    error // of the first one
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("without shard %s: %v", strings.Join(e.Shards, ", "), e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }

// Missing returns the shards that are missing in an answer.
func Missing(err error) []string {
	if partial, ok := errors.AsType[*PartialError](err); ok {
		return partial.Shards
	}
	return nil
}

// IsPartial reports whether an error means that the answer is without some shards.
func IsPartial(err error) bool { return errors.As(err, new(*PartialError)) }

// each asks shards, also after an error. It returns errors as a *PartialError.
func each(list []*store.Shard, ask func(*store.Shard) error) error {
	var partial *PartialError
	for _, one := range list {
		err := ask(one)
		switch {
		case err == nil:
			continue
		case partial == nil:
			partial = &PartialError{Err: err}
		}
		partial.Shards = append(partial.Shards, one.Name())
	}
	if partial == nil {
		return nil
	}
	return partial
}

// EachBucket asks every bucket of every shard, also after an error of another shard. It returns errors as a
// *PartialError. Draining shards come first.
func (s *Shards) EachBucket(ask func(*store.Bucket) error) error {
	return each(s.drainingFirst(), func(one *store.Shard) error {
		for _, b := range one.Buckets() {
			if err := ask(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachTopic is EachBucket about topics: each bucket is asked about its own, at most step of them in one call. A
// namespace's topics are spread over all buckets, and each knows of its own.
func (s *Shards) EachTopic(topics []string, step int, ask func(b *store.Bucket, topics []string) error) error {
	return each(*s.all.Load(), func(one *store.Shard) error {
		in := map[*store.Bucket][]string{}
		for _, topic := range topics {
			buckets := one.Buckets()
			if !store.IsNamespace(topic) {
				buckets = []*store.Bucket{one.BucketOf(topic)}
			}
			for _, b := range buckets {
				in[b] = append(in[b], topic)
			}
		}
		for _, b := range one.Buckets() {
			for some := range slices.Chunk(in[b], step) {
				if err := ask(b, some); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Announce tells the processes that listen to any shard (Options.Announced) that the registry changed.
func (s *Shards) Announce(ctx context.Context, revision int64) {
	for _, one := range *s.all.Load() {
		if one.Up() {
			// only a hint: processes poll the revision anyway
			_ = one.Redis().Publish(ctx, store.RegistryChannel, revision).Err()
		}
	}
}

// CanKeep returns an error that names the active shards that cannot provide a durability, and why. It ignores shards
// that do not answer.
func (s *Shards) CanKeep(ctx context.Context, d store.Durability) error {
	if d == store.Memory {
		return nil
	}
	var errs []error
	for _, one := range *s.active.Load() {
		if one.Up() {
			errs = append(errs, one.HasReplicas(ctx))
		}
	}
	return errors.Join(errs...)
}

// LimitBucket sets the limits of all topics of a bucket that is about to be opened and may have lost them.
func (s *Shards) LimitBucket(ctx context.Context, b *store.Bucket, all iter.Seq[store.TopicConf]) error {
	return b.SetTopics(ctx, all, len(*s.active.Load()))
}
