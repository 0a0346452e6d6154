package beanstalk

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/store"
)

// conn is a connection. Only its own goroutine and the reader use it.
type conn struct {
	*Gateway
	c        gateway.Conn
	w        *bufio.Writer
	ctx      context.Context // ends with the connection, after all received commands have run
	waits    context.Context // ends when the client has closed its side
	used     string
	watched  []string
	held     map[uint64]*held
	produces bool
	works    bool
	body     chan struct{} // one slot, for the body read ahead
}

// held is a job that the connection holds a lease on.
type held struct {
	lease *store.Lease
	ttr   time.Duration
	ends  time.Time // of the lease
}

// releaseTimeout limits the release of a connection's jobs when it ends. Jobs that are not released come back when
// their lease expires.
const releaseTimeout = 5 * time.Second

func (g *Gateway) connection(ctx context.Context, c gateway.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	waits, leaves := context.WithCancel(ctx)
	k := &conn{
		Gateway: g, c: c, w: bufio.NewWriter(c), ctx: ctx, waits: waits, used: defaultTube,
		watched: []string{defaultTube}, held: map[uint64]*held{}, body: make(chan struct{}, 1),
	}
	g.counts.connections.Add(1)
	g.counts.open.Add(1)
	g.tubes.edit(defaultTube, func(t *tube) { t.using++; t.watching++ })
	commands := make(chan command, readAhead)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer leaves() // a reserve does not wait for a client that has disconnected
		k.read(commands)
	})
	k.run(commands)
	_ = c.Close()
	cancel()
	reading.Wait()
	k.leave()
}

// readAhead is how many commands are read while one runs, so that the end of the connection is noticed while a reserve
// waits. To bound memory, only one of them may have a body.
const readAhead = 32

// read reads commands until the connection ends.
func (k *conn) read(to chan<- command) {
	defer close(to)
	r := newReader(k.c, k.maxBody)
	r.within = k.c.SetReadDeadline
	for {
		c, err := r.next()
		if err != nil {
			return
		}
		if c.body != nil {
			select {
			case k.body <- struct{}{}:
			case <-k.ctx.Done():
				return
			}
		}
		select {
		case to <- c:
		case <-k.ctx.Done():
			return
		}
	}
}

func (k *conn) run(commands <-chan command) {
	for c := range commands {
		if c.body != nil {
			<-k.body
		}
		k.c.Begin()
		began := time.Now()
		result, err := k.execute(c)
		if errors.Is(err, errQuit) {
			return
		}
		if err == nil {
			err = k.w.Flush()
		}
		k.Observe(c.known(), result, began)
		if err != nil || !k.c.End() {
			return
		}
	}
}

// leave releases everything that the connection holds.
func (k *conn) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), releaseTimeout)
	defer cancel()
	var list []store.End
	for _, h := range k.held {
		list = append(list, store.End{Lease: h.lease, Verb: store.Release})
	}
	for _, done := range k.queue.End(ctx, list) {
		if done.Err != nil && !errors.Is(done.Err, store.ErrLease) {
			k.Log.Warn("release a job of a closed connection; its lease expires", "error", done.Err)
		}
	}
	k.tubes.edit(k.used, func(t *tube) { t.using-- })
	for _, name := range k.watched {
		k.tubes.edit(name, func(t *tube) { t.watching-- })
	}
	k.counts.open.Add(-1)
	if k.produces {
		k.counts.producers.Add(-1)
	}
	if k.works {
		k.counts.workers.Add(-1)
	}
}

// expire removes held jobs whose leases have ended.
func (k *conn) expire(now time.Time) {
	for id, h := range k.held {
		if !h.ends.After(now) {
			delete(k.held, id)
			k.counts.timeouts.Add(1)
		}
	}
}

// deadline returns the time at which the first held job enters its last second, or zero if none is held.
func (k *conn) deadline() (at time.Time) {
	for _, h := range k.held {
		if soon := h.ends.Add(-time.Second); at.IsZero() || soon.Before(at) {
			at = soon
		}
	}
	return at
}

// watch adds a tube to those that the connection watches. Their number is limited, because each reserve asks Redis
// about all of them.
func (k *conn) watch(name string) error {
	if slices.Contains(k.watched, name) {
		return nil
	}
	if err := pull.CheckRequest(len(k.watched)+1, k.MaxTopics); err != nil {
		return err
	}
	k.watched = append(k.watched, name)
	k.tubes.edit(name, func(t *tube) { t.watching++ })
	return nil
}

func (k *conn) ignore(name string) bool {
	if !slices.Contains(k.watched, name) {
		return true
	}
	if len(k.watched) == 1 {
		return false
	}
	k.watched = slices.DeleteFunc(k.watched, func(w string) bool { return w == name })
	k.tubes.edit(name, func(t *tube) { t.watching-- })
	return true
}

func (k *conn) use(name string) {
	if name == k.used {
		return
	}
	k.tubes.edit(name, func(t *tube) { t.using++ })
	k.tubes.edit(k.used, func(t *tube) { t.using-- })
	k.used = name
}

// reply writes a line.
func (k *conn) reply(words ...string) error {
	for i, word := range words {
		if i > 0 {
			_ = k.w.WriteByte(' ')
		}
		_, _ = k.w.WriteString(word)
	}
	_, err := k.w.WriteString("\r\n") // returns the writer's first error
	return err
}

// replyJob writes a line with an id, and the job.
func (k *conn) replyJob(word, id string, body []byte) error {
	_ = k.reply(word, id, strconv.Itoa(len(body)))
	_, _ = k.w.Write(body)
	_, err := k.w.WriteString("\r\n")
	return err
}
