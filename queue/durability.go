package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Durability is where a job must be before its push, change or deletion is answered.
type Durability uint8

// The durabilities. Each class of pushes has calls of its own (see batcher), so that no push waits for what only others want.
const (
	Memory  Durability = iota // in the memory of its server, which is what Redis promises by itself
	Replica                   // in the memory of a replica, too
	Fsync                     // in the server's append-only file, on disk
	durabilities
)

var durabilityNames = [durabilities]string{"memory", "replica", "fsync"}

func (d Durability) String() string {
	if d < durabilities {
		return durabilityNames[d]
	}
	return fmt.Sprintf("durability(%d)", uint8(d))
}

// ParseDurability reads "memory", "replica" or "fsync"; "" is memory.
func ParseDurability(s string) (Durability, error) {
	for i, n := range durabilityNames {
		if s == n {
			return Durability(i), nil
		}
	}
	if s == "" {
		return Memory, nil
	}
	return 0, fmt.Errorf("durability %q is not memory, replica or fsync", s)
}

// Stored says whether an error of a push, change or deletion is that it was made, but is not yet as safe as its topic asks. Made again, it waits
// again.
func Stored(err error) bool {
	var un *UnavailableError
	return errors.As(err, &un) && un.Stored
}

func (q *Queue) durability(topic string) Durability {
	if q.opts.Durability == nil {
		return Memory
	}
	return min(q.opts.Durability(topic), durabilities-1)
}

// patience is how long a server may take to get a change to where the durability asks for. A file that is synced every second takes up to
// one.
func (d Durability) patience(timeout time.Duration) time.Duration {
	if d == Replica {
		return timeout / 2
	}
	return timeout
}

// safePool is how many connections may wait for replicas and disks. They are not those of everything else, which would have to
// wait for them.
const safePool = 64

// onceSafe is once for a script that is to be answered when its outcome is where d says; short says why it is not, though it was made.
func (s *Shard) onceSafe(ctx context.Context, bucket int, d Durability, script *redis.Script, args ...any) (v any, repeated bool, short, err error) {
	if d == Memory {
		v, repeated, err = s.once(ctx, bucket, script, args...)
		return v, repeated, nil, err
	}
	v, short, err = s.runSafe(ctx, bucket, d, script, args...)
	if err != nil && errors.Is(err, errConnection) {
		v, short, err = s.runSafe(ctx, bucket, d, script, args...)
		repeated = true
	}
	return v, repeated, short, err
}

// runSafe is run with a wait behind the script.
func (s *Shard) runSafe(ctx context.Context, bucket int, d Durability, script *redis.Script, args ...any) (v any, short, err error) {
	n := s.nodes[bucket]
	if n.down.Load() {
		return nil, nil, s.unavailable("down", n.why.Load().(error))
	}
	wait := d.patience(s.timeout)
	ctx, cancel := context.WithTimeout(ctx, 2*s.timeout+wait) // for a connection, for the script, for the replica or disk
	defer cancel()
	v, short, err = s.evalSafe(ctx, bucket, d, script, args...)
	switch {
	case err == nil || errors.Is(err, redis.Nil):
		return v, short, nil
	case errors.Is(err, redis.ErrPoolTimeout): // all others wait; that says nothing of the shard
		return nil, nil, s.unavailable("overloaded", err)
	}
	return nil, nil, s.failed(ctx, bucket, err)
}

// evalSafe is eval with a wait behind the script. It speaks to the bucket's node itself, and so has to find the right one by itself when a Cluster changes.
func (s *Shard) evalSafe(ctx context.Context, bucket int, d Durability, script *redis.Script, args ...any) (v any, short, err error) {
	keys := []string{prefix(bucket)}
	send := func(p redis.Pipeliner) *redis.Cmd { return script.EvalSha(ctx, p, keys, args...) }
	for anchored := false; ; {
		v, short, err = s.pipeSafe(ctx, bucket, d, send)
		var again error
		switch {
		case err == nil:
			return v, short, nil
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			send = func(p redis.Pipeliner) *redis.Cmd { return script.Eval(ctx, p, keys, args...) }
		case redis.HasErrorPrefix(err, "NOBUCKET") && !anchored:
			anchored, again = true, s.anchor(ctx, bucket)
		case redis.HasErrorPrefix(err, "MOVED"):
			again = s.reload(ctx, probeEvery)
		case redis.HasErrorPrefix(err, "ASK"):
			return nil, nil, beingMoved(bucket)
		default:
			_ = s.reload(ctx, 0) // for the next one: another node may have taken over
			return nil, nil, err
		}
		if again != nil {
			return nil, nil, again
		}
	}
}

// reload has a Cluster asked which node has what, which takes a while.
func (s *Shard) reload(ctx context.Context, wait time.Duration) error {
	cluster, ok := s.waits.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	cluster.ReloadState(ctx)
	if wait == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// pipeSafe sends a script and a wait together over one connection, since a server waits for what came over that. In between it writes a key:
// from 7.2 on Redis waits for what a connection wrote last, and a script that finds its job stored writes nothing, while the job
// may be on its way still. Without a script it waits for all that was written before.
func (s *Shard) pipeSafe(ctx context.Context, bucket int, d Durability, script func(redis.Pipeliner) *redis.Cmd) (v any, short, err error) {
	node, err := s.master(ctx, bucket)
	if err != nil {
		return nil, nil, err
	}
	pipe := node.Pipeline()
	var made *redis.Cmd
	if script != nil {
		made = script(pipe)
	}
	wrote := pipe.Set(ctx, waitKey(bucket), 1, 0)
	wait := d.patience(s.timeout)
	command := []any{"WAIT", 1, wait.Milliseconds()}
	if d == Fsync {
		command = []any{"WAITAOF", 1, 0, wait.Milliseconds()}
	}
	waited := pipe.Do(ctx, command...)
	_, _ = pipe.Exec(ctx) // each command has its own error
	switch {
	case made != nil && made.Err() != nil:
		return nil, nil, made.Err()
	case made == nil && wrote.Err() != nil:
		return nil, nil, wrote.Err()
	case made != nil:
		v = made.Val()
	}
	switch {
	case waited.Err() != nil:
		s.nodes[bucket].syncs.Store(false)
		return v, broken(waited.Err()), nil
	case !reached(waited.Val()):
		return v, s.missing(ctx, node, d), nil
	}
	if d == Fsync {
		s.nodes[bucket].syncs.Store(true)
	}
	return v, nil, nil
}

// reached reads how many replicas have it, or on how many disks and replicas it is.
func reached(v any) bool {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	n, ok := v.(int64)
	return ok && n >= 1
}

// master is the server that has a bucket, for commands that wait.
func (s *Shard) master(ctx context.Context, bucket int) (*redis.Client, error) {
	switch c := s.waits.(type) {
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, prefix(bucket))
	case *redis.Client:
		return c, nil
	}
	return nil, fmt.Errorf("a client of type %T is not known", s.waits)
}

// missing says why a wait was in vain.
func (s *Shard) missing(ctx context.Context, node *redis.Client, d Durability) error {
	wait := d.patience(s.timeout)
	if d == Fsync {
		return fmt.Errorf("its disk has not confirmed it within %s; appendfsync always makes that fast", wait)
	}
	text, err := node.Info(ctx, "replication").Result()
	if n := parseInfo(text)["connected_slaves"]; err == nil && n == "0" {
		return errors.New("it has no replica that is connected")
	}
	return fmt.Errorf("no replica has confirmed it within %s", wait)
}

// able says, before anything is stored, why a server cannot do what a durability asks for. That a replica is away is no such reason: it comes back.
func (s *Shard) able(ctx context.Context, bucket int, d Durability) error {
	n := s.nodes[bucket]
	if d != Fsync || n.syncs.Load() || n.down.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	node, err := s.master(ctx, bucket)
	if err != nil {
		return nil // whatever comes next says so
	}
	return s.canSync(ctx, node)
}

// canSync says why a server has no WAITAOF or would refuse it. One that does not answer is given the benefit of the doubt.
func (s *Shard) canSync(ctx context.Context, node *redis.Client) error {
	pipe := node.Pipeline()
	known := pipe.Do(ctx, "COMMAND", "INFO", "WAITAOF")
	info := pipe.Info(ctx, "server", "persistence")
	_, _ = pipe.Exec(ctx)
	about := parseInfo(info.Val())
	list, ok := known.Val().([]any)
	switch {
	case known.Err() != nil || info.Err() != nil || !ok:
		return nil
	case len(list) == 0 || list[0] == nil:
		return &unableError{s.name, "has Redis " + about["redis_version"] + ", which has no WAITAOF: it takes Redis 7.2 or later"}
	case about["aof_enabled"] == "0":
		return &unableError{s.name, "has Redis " + about["redis_version"] + " without an append-only file: set appendonly yes there"}
	}
	return nil
}

// unableError is a server that cannot do what a durability asks for.
type unableError struct{ shard, why string }

func (e *unableError) Error() string { return "shard " + e.shard + " " + e.why }

// Able says which active shards cannot do what a durability asks for, and why. One that does not answer is left out.
func (q *Queue) Able(ctx context.Context, d Durability) error {
	var errs []error
	for _, s := range *q.shards.Load() {
		if s.State() == "active" && s.Up() {
			errs = append(errs, s.ableNow(ctx, d))
		}
	}
	return errors.Join(errs...)
}

func (s *Shard) ableNow(ctx context.Context, d Durability) error {
	if d == Memory {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	ask := func(ctx context.Context, node *redis.Client) error {
		if d == Fsync {
			return s.canSync(ctx, node)
		}
		text, err := node.Info(ctx, "replication").Result()
		if err == nil && parseInfo(text)["connected_slaves"] == "0" {
			return &unableError{s.name, "has no replica that is connected: start one with replicaof, or see why it is away"}
		}
		return nil
	}
	switch c := s.waits.(type) {
	case *redis.ClusterClient:
		err := c.ForEachMaster(ctx, ask)
		var unable *unableError
		if errors.As(err, &unable) {
			return unable
		}
		return nil
	case *redis.Client:
		return ask(ctx, c)
	}
	return nil
}

// notSafe is what a caller gets whose job is stored, but not as its topic asks.
func (s *Shard) notSafe(what, topic, id string, d Durability, short error) error {
	return &UnavailableError{Reason: d.String(), RetryAfter: time.Second, Stored: true, Err: fmt.Errorf(
		"%s %s/%s: it is made in shard %s, but not as safe as the topic's durability %s asks: %w; make it again under the same id, and it waits again",
		what, topic, id, s.name, d, short)}
}

func (s *Shard) refuseAll(pushes []Push, d Durability, why error) []Result {
	results := make([]Result, len(pushes))
	for i := range pushes {
		results[i].Err = s.refused(&pushes[i], d, why)
	}
	return results
}

// refused is what a push gets whose server cannot do what the topic asks for. Nothing was stored.
func (s *Shard) refused(p *Push, d Durability, why error) error {
	return &UnavailableError{Reason: d.String(), RetryAfter: unableRetry, Err: fmt.Errorf(
		"push %s/%s: the topic's durability is %s, but %w, or set the topic's durability to memory or replica", p.Topic, p.ID, d, why)}
}

// unableRetry is when to push again what no server of the shard can keep as it should: when somebody has seen to it.
const unableRetry = 30 * time.Second

// confirm waits until what a shard has written so far is where d says, and says why it is not.
func (s *Shard) confirm(ctx context.Context, bucket int, d Durability) error {
	if err := s.able(ctx, bucket, d); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout+d.patience(s.timeout))
	defer cancel()
	_, short, err := s.pipeSafe(ctx, bucket, d, nil)
	if err != nil {
		return broken(err)
	}
	return short
}

// broken says what became of a wait that was not carried out, without addresses, since clients see it.
func broken(err error) error {
	if reason := reasonOf(err); reason != "script" {
		return fmt.Errorf("the wait for it ended early (%s)", reason)
	}
	return fmt.Errorf("the server refused to wait: %w", err)
}

func waitKey(bucket int) string { return prefix(bucket) + "wait" }

// safest is what a change or deletion waits for: no server is asked for more than it can do, so that nobody is kept from deleting.
func (s *Shard) safest(ctx context.Context, bucket int, d Durability) Durability {
	if s.able(ctx, bucket, d) != nil {
		return Memory
	}
	return d
}

// patient splits off the calls that waited so long for their turn that their answers would come too late: behind a replica that does not
// answer, others would queue up for minutes.
func (b *batcher) patient(batch []*pushCall) (soon []*pushCall) {
	if b.durability == Memory {
		return batch
	}
	for _, c := range batch {
		if time.Since(c.since) <= b.timeout {
			soon = append(soon, c)
			continue
		}
		c.results = failAll(len(c.pushes), b.shard.unavailable("overloaded", fmt.Errorf("too many pushes wait for durability %s", b.durability)))
		close(c.done)
	}
	return soon
}

// unsafe turns what was stored, and what was there already, into errors that say so. Deliberate refusals stay what they are.
func (b *batcher) unsafe(pushes []Push, results []Result, short error) {
	for i := range results {
		if results[i].Err == nil {
			results[i] = Result{Job: results[i].Job, Err: b.shard.notSafe("push", pushes[i].Topic, results[i].Job.ID, b.durability, short)}
		}
	}
}
