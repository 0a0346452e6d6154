package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"
)

// Shard is one Redis deployment. Its methods may be called from any goroutine.
type Shard struct {
	name    string
	url     string
	seed    uint64 // for its weight in rendezvous hashing
	state   atomic.Value
	client  redis.UniversalClient
	waits   redis.UniversalClient // for commands that wait for replicas
	timeout time.Duration         // of one command
	buckets []*Bucket
	log     *slog.Logger
	peers   Peers

	compose func(*Script) string

	standing func() time.Time // see Options.StandingClock
	hashes   sync.Map         // *Script → of its text

	identity string
	former   string
	patience time.Duration // Options.AwaitCompared
	host     string        // Options.Host and Settings
	settings string

	counted atomic.Pointer[jobCount] // the last count of the shard's jobs
	ctx     context.Context          // ends with Close
	cancel  context.CancelFunc
	closing sync.Mutex // orders start and close
	wg      sync.WaitGroup

	confMu       sync.Mutex
	confVersions []uint64 // by bucket: of the topics' limits that it is known to hold; 0: unknown
}

// Peers is what a shard has to know of the other shards of its queue. The functions may be called from any goroutine.
type Peers struct {
	Names  func() map[string]string            // of all shards of the registry, by identity
	Takers func() int                          // how many shards accept new jobs
	Resync func(context.Context, *Shard) error // sets the topics' limits on a shard again
	// CatchUp carries out what other shards hold for a bucket, and with lost also sets in it what was set in others
	// while this process could not call it. all is false when a shard did not answer in time. nil: nothing is held.
	CatchUp func(ctx context.Context, b *Bucket, lost bool) (all bool, err error)
	Behind  func(*Shard) // makes the buckets of all others catch up with a shard
}

// OpenShard connects to a shard when it is first called; Close ends it. Error: a URL that cannot be used.
func OpenShard(c ShardConfig, o Options, peers Peers) (*Shard, error) {
	s := &Shard{
		name: c.Name, url: c.URL, seed: xxhash.Sum64String(cmp.Or(c.Identity, c.Name)),
		log: o.Logger.With("shard", c.Name), identity: c.Identity, former: c.Former, peers: peers,
		patience: o.AwaitCompared, host: o.Host, settings: o.Settings,
	}
	client, buckets, err := connect(c.URL, o, 0)
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", c.Name, err)
	}
	patient := o
	patient.PoolSize = waitPool
	if s.waits, _, err = connect(c.URL, patient, o.Timeout); err != nil {
		return nil, errors.Join(fmt.Errorf("shard %s: %w", c.Name, err), client.Close())
	}
	s.client, s.timeout = client, o.Timeout
	s.state.Store(c.State)
	s.standing = o.StandingClock
	s.compose = func(script *Script) string { return script.text(buckets > 1, s.clock(script)) }
	s.confVersions = make([]uint64, buckets)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for n := range buckets {
		s.buckets = append(s.buckets, newBucket(s, n, o))
	}
	return s, nil
}

// clock returns the file that says how a script learns the time.
func (s *Shard) clock(script *Script) string {
	switch {
	case s.standing == nil:
		return "clock"
	case script.SetsClock:
		return "clock_set"
	}
	return "clock_standing"
}

// Weight returns the shard's weight for a hash of a job, by rendezvous hashing.
func (s *Shard) Weight(sum uint64) uint64 { return mix(sum ^ s.seed) }

// mix spreads the bits of x (the finaliser of SplitMix64, by Sebastiano Vigna), so that the weights of different shards
// are independent.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Start runs f in a goroutine that close waits for. It returns false if the shard is closed.
func (s *Shard) Start(f func()) bool {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Go(f)
	return true
}

// Close ends all calls and listeners, waits for them, and closes the connections.
func (s *Shard) Close() error {
	s.closing.Lock()
	s.cancel()
	s.closing.Unlock()
	interrupt := time.AfterFunc(closeLimit, func() { _ = s.client.Close() })
	s.wg.Wait()
	if !interrupt.Stop() {
		return s.waits.Close()
	}
	return errors.Join(s.client.Close(), s.waits.Close())
}

// closeLimit is how long a command that is not answered may hold up a process that stops.
const closeLimit = time.Second

// Redis returns the client, for plain commands on keys that begin with the prefix of a bucket.
func (s *Shard) Redis() redis.UniversalClient { return s.client }

// Name returns the shard's name in the registry.
func (s *Shard) Name() string { return s.name }

// Buckets returns the shard's parts: one, or Options.Buckets of a Cluster. The list must not be changed.
func (s *Shard) Buckets() []*Bucket { return s.buckets }

// IsOf reports whether the shard was opened with the address and identity of a registry's entry.
func (s *Shard) IsOf(c ShardConfig) bool { return s.url == c.URL && s.identity == c.Identity }

// SetState sets the state that the registry says.
func (s *Shard) SetState(state string) { s.state.Store(state) }

// State returns active, draining or offline, as the registry says.
func (s *Shard) State() string { return s.state.Load().(string) }

// Up reports whether the shard answered when this process last called it.
func (s *Shard) Up() bool {
	for _, b := range s.buckets {
		if b.IsDown() {
			return false
		}
	}
	return true
}

// BucketOf returns the bucket of a topic. All its jobs are in one, so that its limits, order and lists are exact on the
// shard.
func (s *Shard) BucketOf(topic string) *Bucket {
	if len(s.buckets) == 1 {
		return s.buckets[0]
	}
	return s.buckets[xxhash.Sum64String(topic)%uint64(len(s.buckets))]
}

// retry calls try at an interval until it returns true or the shard is closed.
func (s *Shard) retry(every time.Duration, try func() (done bool)) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		}
		if try() {
			return
		}
	}
}

// Proven returns nil when a bucket is up and has answered a script lately. If none has, it probes them.
func (s *Shard) Proven() (err error) {
	var ask []*Bucket
	for _, n := range rand.Perm(len(s.buckets)) {
		switch b := s.buckets[n]; {
		case b.IsDown():
			err = b.Unusable()
		case b.provenLately():
			return nil
		default:
			ask = append(ask, b)
		}
	}
	for _, b := range ask {
		if err = b.prove(); err == nil {
			return nil
		}
	}
	return err
}
