package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Durability says where a change must be stored before a push, change or deletion is answered.
type Durability uint8

// The durabilities. Each has its own push calls (see newPushes), so that no push waits for a replica that only others
// need.
const (
	Memory  Durability = iota // in the memory of its server, which is what Redis itself promises
	Replica                   // in the memory of a replica as well
	durabilities
)

var durabilityNames = [durabilities]string{"memory", "replica"}

func (d Durability) String() string { return durabilityNames[d] }

// Stored reports whether an error of a push, change or deletion means that it was carried out, but that no replica has
// confirmed it yet. Repeating the call waits again.
func Stored(err error) bool {
	var un *UnavailableError
	return errors.As(err, &un) && un.Stored
}

// replicaWait is how long a replica may take to confirm a write.
func (s *Shard) replicaWait() time.Duration { return s.timeout / 2 }

// waitPool is the most connections that wait for replicas. Other commands have their own pool and do not queue behind
// them.
const waitPool = 64

// sendAndWait sends a command and WAIT together over one connection, since WAIT covers the writes of its connection. In
// between it writes a key: WAIT waits for the connection's last write, and a script that finds its job stored writes
// nothing, while the job may still be on its way to the replica. Without a command it waits for everything written
// before. unsafe says why no replica has confirmed.
func (b *Bucket) sendAndWait(ctx context.Context, cmd redis.Cmder) (unsafe, err error) {
	node, err := b.master(ctx)
	if err != nil {
		return nil, err
	}
	pipe := node.Pipeline()
	if cmd != nil {
		_ = pipe.Process(ctx, cmd)
	}
	wrote := pipe.Set(ctx, b.Key("wait"), 1, 0)
	if cmd == nil {
		cmd = wrote
	}
	waited := pipe.Do(ctx, "WAIT", 1, b.shard.replicaWait().Milliseconds())
	_, _ = pipe.Exec(ctx) // each command has its own error
	if cmd.Err() != nil {
		return nil, cmd.Err()
	}
	replicas, err := waited.Int64()
	switch {
	case err != nil:
		return waitFailed(err), nil
	case replicas < 1:
		return b.shard.unconfirmed(ctx, node), nil
	}
	return nil, nil
}

// master returns the client of the bucket's server, for commands that wait.
func (b *Bucket) master(ctx context.Context) (*redis.Client, error) {
	switch c := b.shard.waits.(type) {
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, b.Key(""))
	case *redis.Client:
		return c, nil
	}
	return nil, fmt.Errorf("unknown client of type %T", b.shard.waits)
}

// unconfirmed says why WAIT timed out.
func (s *Shard) unconfirmed(ctx context.Context, node *redis.Client) error {
	text, err := node.Info(ctx, "replication").Result()
	if n := parseInfo(text)["connected_slaves"]; err == nil && n == "0" {
		return errors.New("it has no connected replica")
	}
	return fmt.Errorf("no replica has confirmed it within %s", s.replicaWait())
}

// waitFailed says why WAIT failed, without addresses, since clients see it.
func waitFailed(err error) error {
	if reason := reasonOf(err); reason != "script" {
		return fmt.Errorf("the wait for it ended early (%s)", reason)
	}
	return fmt.Errorf("the server refused to wait: %w", err)
}

// noReplicaError is the error of a shard that cannot replicate.
type noReplicaError struct{ shard string }

func (e *noReplicaError) Error() string {
	return "shard " + e.shard +
		" has no connected replica: start one with replicaof, or find out why it is disconnected"
}

// HasReplicas returns an error when a master of the shard has no connected replica.
func (s *Shard) HasReplicas(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := eachMaster(ctx, s.waits, func(ctx context.Context, node *redis.Client) error {
		text, err := node.Info(ctx, "replication").Result()
		if err == nil && parseInfo(text)["connected_slaves"] == "0" {
			return &noReplicaError{s.name}
		}
		return nil
	})
	if none, ok := errors.AsType[*noReplicaError](err); ok {
		return none
	}
	return nil
}

// NotReplicated is the error of a push, change or deletion that was carried out, but that no replica has confirmed.
func (b *Bucket) NotReplicated(what, topic, id string, why error) error {
	return &UnavailableError{Reason: Replica.String(), RetryAfter: time.Second, Stored: true, Err: fmt.Errorf(
		"%s %s/%s: shard %s has carried it out, but not with the topic's durability %s: %w; "+
			"repeat it under the same id to wait again",
		what, topic, id, b.shard.name, Replica, why)}
}

// AwaitReplica waits until a replica has all that the bucket's server has written so far; the error says why it has
// not.
func (b *Bucket) AwaitReplica(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.shard.timeout+b.shard.replicaWait())
	defer cancel()
	unsafe, err := b.sendAndWait(ctx, nil)
	if err != nil {
		return waitFailed(err)
	}
	return unsafe
}
