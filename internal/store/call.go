package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/pause"
)

// Reply is the reply of a script.
type Reply struct {
	Value any
	// Doubtful means that an earlier call of the same arguments got no reply and may have been carried out. If this one
	// found nothing to do, the outcome is errUnknown.
	Doubtful bool
	Unsafe   error // why no replica has confirmed the writes, when the durability requires one
}

// Call calls a script as its row says. An error that is not the context's or the script's own is an
// *UnavailableError.
func (b *Bucket) Call(ctx context.Context, script *Script, args ...any) (Reply, error) {
	return b.callDurably(ctx, Memory, script, args...)
}

// callDurably is Call, and waits until the writes of a script with replicas are as safe as d requires.
func (b *Bucket) callDurably(
	ctx context.Context, d Durability, script *Script, args ...any,
) (Reply, error) {
	c := call{bucket: b, script: script, args: args, replica: script.Replicas && d == Replica}
	reply, err := c.runOpen(ctx)
	if !isLost(err) || script.Lost == LostNever {
		return reply, err
	}
	reply, err = c.runOpen(ctx)
	reply.Doubtful = script.Lost == LostDoubt
	if un, ok := errors.AsType[*UnavailableError](err); ok {
		un.unanswered = true
	}
	return reply, err
}

// CallList is Call for scripts that reply a list of n values, or of any length when n is negative.
func (b *Bucket) CallList(ctx context.Context, n int, script *Script, args ...any) ([]any, error) {
	reply, err := b.Call(ctx, script, args...)
	if err != nil {
		return nil, err
	}
	list, ok := reply.Value.([]any)
	if !ok || n >= 0 && len(list) != n {
		return nil, fmt.Errorf("%s on shard %s: %w", script.Name, b.shard.name, ErrReply)
	}
	return list, nil
}

// SendOnly sends a script without regard to the bucket's state: for what finds out that state.
func (b *Bucket) SendOnly(ctx context.Context, script *Script, args ...any) (Reply, error) {
	c := call{bucket: b, script: script, args: args}
	return c.send(ctx, 0)
}

// call is one call of a script.
type call struct {
	bucket  *Bucket
	script  *Script
	args    []any
	replica bool // wait for a replica
}

// runOpen is run, and once more if the bucket was being compared with the journals: then the script has done nothing.
func (c *call) runOpen(ctx context.Context) (Reply, error) {
	reply, err := c.run(ctx)
	if IsComparing(err) && c.bucket.awaitOpen(ctx, c.script) {
		return c.run(ctx)
	}
	return reply, err
}

// run checks that the bucket is usable, sends the script, and records what an error says about the bucket.
func (c *call) run(ctx context.Context) (Reply, error) {
	b := c.bucket
	if err := c.refused(); err != nil {
		return Reply{}, err
	}
	if c.replica { // for a connection, the script and the replica
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*b.shard.timeout+b.shard.replicaWait())
		defer cancel()
	}
	began := time.Now()
	var reply Reply
	err := b.check(ctx)
	if err == nil && c.script.needsCompared() {
		err = b.catchUp(ctx)
	}
	if err == nil {
		reply, err = c.send(ctx, refusedFor)
	}
	switch {
	case err == nil:
		if c.script.needsCompared() && !b.proven.Load() {
			b.proven.Store(true)
		}
		return reply, nil
	case c.replica && errors.Is(err, redis.ErrPoolTimeout): // all wait for replicas; the shard itself may be healthy
		return Reply{}, b.Unavailable("overloaded", err)
	}
	return Reply{}, b.Failed(ctx, began, err)
}

// refused returns why a bucket that is down cannot run the script.
func (c *call) refused() error {
	if c.bucket.reason() == ReasonComparing && !c.script.needsCompared() {
		return nil
	}
	return c.bucket.Unusable()
}

// A script that was not sent, or that the server refused before it ran, is sent again after a pause: a slot moves, a
// replica takes over, a server restarts. That ends soon, since another shard may accept the job, and a bucket that is
// marked down is probed.
const (
	refusedFor = 300 * time.Millisecond
	firstPause = 5 * time.Millisecond
	lateTries  = 3 // the first call of all, and the first after a jump of the clock, begin "too late", see deadline.go
)

// send sends the script until it ran, and for as long as patience says while it is refused.
func (c *call) send(ctx context.Context, patience time.Duration) (Reply, error) {
	t := tries{call: c, until: time.Now().Add(patience), pause: firstPause, late: 1}
	for {
		reply, sent, err := c.sendOnce(ctx, t.full)
		if err == nil || errors.Is(err, redis.Nil) {
			return reply, nil
		}
		if err := t.next(ctx, err, sent); err != nil {
			return Reply{}, err
		}
	}
}

// tries is what sending a script again depends on.
type tries struct {
	*call
	full    bool // send the text: the server does not know the script
	guarded bool // the slot guard was made
	late    int
	until   time.Time // for how long to send what is refused
	pause   time.Duration
}

// next prepares to send again after an error, or returns it.
func (t *tries) next(ctx context.Context, err error, sent bool) error {
	switch {
	case redis.HasErrorPrefix(err, "NOSCRIPT") && !t.full:
		t.full = true
		return nil
	case redis.HasErrorPrefix(err, "NOBUCKET") && !t.guarded:
		t.guarded = true
		return t.bucket.makeSlotGuard(ctx)
	case redis.HasErrorPrefix(err, tooLate):
		t.noteClock(err)
		if t.late++; t.late > lateTries {
			return ErrTooLate
		}
		return nil
	}
	refused := isRefused(err, sent)
	if refused {
		t.bucket.shard.reloadCluster(ctx) // for the next call, too: another node may have taken over
	}
	if !refused || time.Now().Add(t.pause).After(t.until) || !pause.For(ctx, t.pause) {
		return withFate(err, sent)
	}
	t.pause *= 2
	return nil
}

// noteClock takes the server's time from the error of a script that began too late.
func (c *call) noteClock(err error) {
	server, _ := strconv.ParseInt(strings.TrimPrefix(err.Error(), tooLate), 10, 64)
	c.bucket.clock.Store(&clockReading{server, time.Now()})
}

// sendOnce sends the script once: its text when full, else its hash. It reports whether anything was sent.
func (c *call) sendOnce(ctx context.Context, full bool) (reply Reply, sent bool, err error) {
	b, s := c.bucket, c.bucket.shard
	args := make([]any, scriptHead, scriptHead+len(c.args)+1)
	code := &sentText{}
	args[0], args[1], args[2], args[3] = "evalsha", code, 1, b.Key("")
	if code.text = s.hash(c.script); full {
		args[0], code.text = "eval", s.compose(c.script)
	}
	args = append(args, c.args...)
	if c.script.Deadline {
		args = append(args, b.until(ctx, s.timeout))
	}
	cmd := command{redis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(scriptHead - 1)
	if c.replica {
		reply.Unsafe, err = b.sendAndWait(ctx, cmd)
	} else {
		err = s.client.Process(ctx, cmd)
	}
	reply.Value = cmd.Val()
	return reply, code.sent, err
}

const scriptHead = 4 // the arguments of EVALSHA before a script's own

// command is a command that the client never repeats once it may have been sent: a Cluster's client would otherwise
// repeat it after a lost reply. It still follows MOVED and ASK: the node that says so has not run the script.
type command struct{ *redis.Cmd }

// NoRetry is what the client asks.
func (command) NoRetry() bool { return true }

// sentText is an argument that knows whether it was written to a connection.
type sentText struct {
	text string
	sent bool
}

// MarshalBinary is called by the client when it writes the command.
func (t *sentText) MarshalBinary() ([]byte, error) {
	t.sent = true
	return []byte(t.text), nil
}

// reloadCluster makes the clients ask a Cluster which node has which slots: by themselves they do so once a minute, and
// the one of the two that follows a redirection tells the other nothing.
func (s *Shard) reloadCluster(ctx context.Context) {
	for _, c := range []redis.UniversalClient{s.client, s.waits} {
		if cluster, ok := c.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx)
		}
	}
}
