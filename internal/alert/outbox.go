package alert

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// outgoing is a message that waits to be sent, or was sent but is not stored as such yet.
type outgoing struct {
	Delivery // the row to store; its ID is 0 until then
	message  *Message
	stored   bool // the store knows this state
	final    bool // it was sent, or failed permanently
}

const (
	queueLength = 500             // per channel
	maxUnstored = 4 * queueLength // final messages that the store does not know as such
	takeEvery   = 10 * time.Second
)

// retryWaits are the pauses before further tries.
var retryWaits = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 8 * time.Minute}

type outboxStorage interface {
	AddDelivery(ctx context.Context, d Delivery) error
	QueueDelivery(ctx context.Context, holder string, d QueuedDelivery) (id uint64, err error)
	NoteDelivery(ctx context.Context, d Delivery) error
	TakeDeliveries(ctx context.Context, holder string) ([]QueuedDelivery, error)
	LeaveDeliveries(ctx context.Context, holder string) error
}

// outbox sends messages in the background, each channel independently of the others. Only sync calls the store, so
// sending never waits for it.
type outbox struct {
	store  outboxStorage
	holder string // identifies this process in the store
	send   func(context.Context, *outgoing) error
	report func(Delivery) // called with each first and each final result
	waits  []time.Duration
	limit  time.Duration // limits one call to the store

	ctx     context.Context
	workers sync.WaitGroup
	changed chan struct{}

	mu      sync.Mutex
	queues  map[string]chan *outgoing // by channel
	pending map[*outgoing]bool        // messages that are not sent, or not stored as sent
}

func newOutbox(
	store outboxStorage, holder string, send func(context.Context, *outgoing) error, report func(Delivery),
) *outbox {
	return &outbox{
		store: store, holder: holder, send: send, report: report, waits: retryWaits, limit: storeLimit,
		changed: make(chan struct{}, 1), queues: map[string]chan *outgoing{}, pending: map[*outgoing]bool{},
	}
}

// start lets put send messages, until ctx is done.
func (o *outbox) start(ctx context.Context) { o.ctx = ctx }

// put queues a message. If too many are waiting already, the message fails.
func (o *outbox) put(d *outgoing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting := 0
	for x := range o.pending {
		if x.ID != 0 && x.ID == d.ID {
			return
		}
		if x.Channel == d.Channel && !x.final {
			waiting++
		}
	}
	o.pending[d] = true
	if waiting >= queueLength {
		o.result(d, errors.New("too many messages wait to be sent"), true)
		return
	}
	o.wake()
	o.queue(d.Channel) <- d // has room for every waiting message
}

// queue returns the queue of a channel, and starts the channel's worker with it.
func (o *outbox) queue(channel string) chan *outgoing {
	q := o.queues[channel]
	if q == nil {
		q = make(chan *outgoing, queueLength)
		o.queues[channel] = q
		if o.ctx != nil {
			o.workers.Go(func() { o.work(q) })
		}
	}
	return q
}

func (o *outbox) work(q chan *outgoing) {
	for {
		select {
		case <-o.ctx.Done():
			return
		case d := <-q:
			o.try(q, d)
		}
	}
}

// try sends once. A message to be tried again waits without occupying a worker.
func (o *outbox) try(q chan *outgoing, d *outgoing) {
	err := o.send(o.ctx, d)
	if o.ctx.Err() != nil {
		return // another process sends it
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result(d, err, err == nil || d.Tries >= len(o.waits))
	if d.final {
		return
	}
	wait := o.waits[d.Tries-1]
	o.workers.Go(func() {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-o.ctx.Done():
		case <-t.C:
			q <- d
		}
	})
}

// result updates a message after a try.
func (o *outbox) result(d *outgoing, err error, final bool) {
	d.At, d.State, d.Error, d.Tries, d.final, d.stored = time.Now().UTC(), Sent, "", d.Tries+1, final, false
	if err != nil {
		d.State, d.Error = Failed, err.Error()
		if !final {
			d.State = Retrying
		}
	}
	if final || d.Tries == 1 {
		o.report(d.Delivery)
	}
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// sync stores changes, and takes over what other processes left behind, until ctx is done.
func (o *outbox) sync(ctx context.Context) {
	o.take(ctx)
	next := time.After(takeEvery)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-o.changed:
			_ = o.storeAll(ctx) // tried again at the next tick
		case <-next:
			next = time.After(takeEvery)
			if o.storeAll(ctx) == nil { // otherwise take would return messages that were already sent
				o.take(ctx)
			}
		}
	}
}

// leave waits for the workers and lets another process send what they have not sent. put must not be called after it.
func (o *outbox) leave(ctx context.Context) {
	o.workers.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*o.limit)
	defer cancel()
	if o.storeAll(ctx) == nil {
		_ = o.store.LeaveDeliveries(ctx, o.holder) // otherwise other processes wait until this one counts as stopped
	}
}

// storeAll stores the messages whose current state is not in the store.
func (o *outbox) storeAll(ctx context.Context) error {
	for d := o.unstored(); d != nil; d = o.unstored() {
		if err := o.storeOne(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (o *outbox) unstored() *outgoing {
	o.mu.Lock()
	defer o.mu.Unlock()
	for d := range o.pending {
		if !d.stored {
			return d
		}
	}
	return nil
}

func (o *outbox) storeOne(ctx context.Context, d *outgoing) error {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	o.mu.Lock()
	now, final := d.Delivery, d.final
	o.mu.Unlock()
	id, err := now.ID, error(nil)
	switch {
	case id != 0:
		err = o.store.NoteDelivery(ctx, now)
	case final:
		err = o.store.AddDelivery(ctx, now)
	default:
		var text []byte
		if text, err = json.Marshal(d.message); err == nil {
			id, err = o.store.QueueDelivery(ctx, o.holder, QueuedDelivery{Delivery: now, Message: string(text)})
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	d.ID = id
	d.stored = err == nil && d.Tries == now.Tries
	if d.final && (d.stored || len(o.pending) > maxUnstored) {
		delete(o.pending, d)
	}
	return err
}

// take takes over messages that this process has to send but does not have yet.
func (o *outbox) take(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	list, err := o.store.TakeDeliveries(ctx, o.holder)
	if err != nil {
		return
	}
	for _, w := range list {
		m := &Message{}
		if json.Unmarshal([]byte(w.Message), m) != nil {
			continue // written by another version
		}
		o.put(&outgoing{Delivery: w.Delivery, message: m, stored: true})
	}
}
