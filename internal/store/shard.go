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

	"github.com/wakecall/wakecall/internal/batch"
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
	nodes   []*bucketState
	log     *slog.Logger
	peers   Peers

	compose func(*Script) string
	hashes  sync.Map // *Script → of its text

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

// bucketState is what this process knows about the server of a bucket, and the calls on their way there.
type bucketState struct {
	checked atomic.Bool                    // its data may be used, see identity.go
	same    atomic.Pointer[SameRedisError] // its data was found to be another shard's
	down    atomic.Bool
	probing atomic.Bool
	proven  atomic.Bool  // it has answered a script since began
	began   atomic.Int64 // Unix ms
	since   atomic.Int64 // when it went down, Unix ms
	told    atomic.Bool  // that it is down
	clock   atomic.Pointer[clockReading]
	why     atomic.Value // error
	pushes  [durabilities]*batch.Batcher[[]Push, []Result]
	takes   *batch.Batcher[takeCall, Taken]
	lost    atomic.Int32 // answers of takes that are being recovered
	ends    *batch.Batcher[[]End, []Ended]

	// listening ends when the bucket goes down: those that listen to it connect anew, perhaps to another server.
	listening atomic.Pointer[listening]
}

// ReasonComparing is the reason for a bucket that waits to be compared with the hosts' journals.
const ReasonComparing = "comparing"

// reason returns why the bucket is down.
func (b *bucketState) reason() string {
	if why, _ := b.why.Load().(error); redis.HasErrorPrefix(why, "NOTCOMPARED") {
		return ReasonComparing
	}
	return "down"
}

// Peers is what a shard has to know of the other shards of its queue. The functions may be called from any goroutine.
type Peers struct {
	Names  func() map[string]string            // of all shards of the registry, by identity
	Takers func() int                          // how many shards accept new jobs
	Resync func(context.Context, *Shard) error // sets the topics' limits on a shard again
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
	s.compose = func(script *Script) string { return script.text(buckets > 1) }
	s.confVersions = make([]uint64, buckets)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for b := range buckets {
		n := &bucketState{}
		n.listening.Store(s.newListening())
		for d := range n.pushes {
			n.pushes[d] = s.newPushes(b, Durability(d), o)
		}
		n.takes, n.ends = s.newTakes(b), s.newEnds(b, o)
		s.nodes = append(s.nodes, n)
	}
	return s, nil
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

// Buckets returns how many parts the shard has: 1, or Options.Buckets for a Cluster.
func (s *Shard) Buckets() int { return len(s.nodes) }

// IsOf reports whether the shard was opened with the address and identity of a registry's entry.
func (s *Shard) IsOf(c ShardConfig) bool { return s.url == c.URL && s.identity == c.Identity }

// SetState sets the state that the registry says.
func (s *Shard) SetState(state string) { s.state.Store(state) }

// State returns active, draining or offline, as the registry says.
func (s *Shard) State() string { return s.state.Load().(string) }

// IsDown reports whether a bucket did not answer when this process last called it, or is being compared.
func (s *Shard) IsDown(bucket int) bool { return s.nodes[bucket].down.Load() }

// Up reports whether the shard answered when this process last called it.
func (s *Shard) Up() bool {
	for _, n := range s.nodes {
		if n.down.Load() {
			return false
		}
	}
	return true
}

// BucketOf returns the bucket of a topic. All its jobs are in one, so that its limits, order and lists are exact on the
// shard.
func (s *Shard) BucketOf(topic string) int {
	if len(s.nodes) == 1 {
		return 0
	}
	return int(xxhash.Sum64String(topic) % uint64(len(s.nodes)))
}

// BucketsOf returns the buckets that may have jobs of a topic. The topics of a namespace are spread over all buckets,
// and each counts its own.
func (s *Shard) BucketsOf(topic string) []int {
	if !IsNamespace(topic) {
		return []int{s.BucketOf(topic)}
	}
	all := make([]int, len(s.nodes))
	for b := range all {
		all[b] = b
	}
	return all
}

// markDown makes calls to a bucket that does not answer fail at once, until a probe gets an answer.
func (s *Shard) markDown(bucket int, err error) {
	n := s.nodes[bucket]
	n.why.Store(fmt.Errorf("%w", err)) // one concrete type, as atomic.Value requires
	if n.down.Swap(true) {
		return
	}
	n.since.Store(time.Now().UnixMilli())
	if n.told.Store(n.reason() != ReasonComparing); n.told.Load() {
		s.log.Warn("shard does not answer", "bucket", bucket, "error", err)
		n.listening.Swap(s.newListening()).end()
	}
	if n.probing.Swap(true) {
		return
	}
	if !s.Start(func() { s.probe(bucket) }) {
		n.probing.Store(false)
	}
}

const probeEvery = 100 * time.Millisecond

// longComparison is how long a comparison takes that is logged: at most starts, there is nothing to compare.
const longComparison = 5 * time.Second

// probe writes to a bucket that is down until it accepts that.
func (s *Shard) probe(bucket int) {
	n := s.nodes[bucket]
	s.retry(probeEvery, func() (done bool) {
		if s.revive(bucket); n.down.Load() {
			return false
		}
		n.probing.Store(false)
		return !n.down.Load() || n.probing.Swap(true) // a call that failed meanwhile found this probe, or started one
	})
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

// provenFor is how long an answer proves that a server takes pushes.
const provenFor = time.Second

// Proven returns nil when a bucket is up and has answered a script lately. If none has, it probes them.
func (s *Shard) Proven() (err error) {
	var ask []int
	for _, b := range rand.Perm(len(s.nodes)) {
		switch n := s.nodes[b]; {
		case n.down.Load():
			err = s.Unavailable(n.reason(), n.why.Load().(error))
		case n.provenLately():
			return nil
		default:
			ask = append(ask, b)
		}
	}
	for _, b := range ask {
		if err = s.prove(b); err == nil {
			return nil
		}
	}
	return err
}

func (b *bucketState) provenLately() bool {
	now := time.Now().UnixMilli()
	if began := b.began.Load(); now-began > provenFor.Milliseconds() && b.began.CompareAndSwap(began, now) {
		b.proven.Store(false)
	}
	return b.proven.Load()
}

func (s *Shard) prove(bucket int) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	if _, err := s.Call(ctx, bucket, probeScript, ""); err != nil && reasonOf(err) != "full" {
		return err
	}
	s.nodes[bucket].proven.Store(true)
	return nil
}

// revive probes a bucket if it is down.
func (s *Shard) revive(bucket int) {
	n := s.nodes[bucket]
	if !n.down.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	err := s.check(ctx, bucket)
	if err == nil {
		_, err = s.sendOnly(ctx, bucket, probeScript, "")
	}
	if err != nil && reasonOf(err) != "full" {
		n.why.Store(fmt.Errorf("%w", err))
		long := time.Since(time.UnixMilli(n.since.Load())) > longComparison
		if long && n.reason() == ReasonComparing && !n.told.Swap(true) {
			s.log.Info("shard is being compared with the journals", "bucket", bucket)
		}
		return
	}
	said := "shard answers again"
	if n.reason() == ReasonComparing {
		said = "shard was compared with the journals; jobs go on"
	}
	n.proven.Store(true)
	n.down.Store(false)
	if n.told.Load() {
		s.log.Info(said, "bucket", bucket)
	}
}
