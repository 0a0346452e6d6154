package alert

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// delivery is one message on its way to one recipient.
type delivery struct {
	Delivery // as it is to be stored; its ID is 0 until it was
	message  *Message
	noted    bool // the store knows all of it
	final    bool // it is sent, or failed for good
}

const (
	queueLength = 500             // of one channel
	unnotedMost = 4 * queueLength // of messages that are done and that the store cannot be told of
	takeEvery   = 10 * time.Second
)

// waits are those before each further try.
var waits = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 8 * time.Minute}

type outboxStorage interface {
	AddDelivery(ctx context.Context, d Delivery) error
	QueueDelivery(ctx context.Context, holder string, d QueuedDelivery) (id uint64, err error)
	NoteDelivery(ctx context.Context, d Delivery) error
	TakeDeliveries(ctx context.Context, holder string) ([]QueuedDelivery, error)
	LeaveDeliveries(ctx context.Context, holder string) error
}

// outbox sends in the background, one channel independently of the others. Only keep talks to the store, so that sending never waits for it.
type outbox struct {
	store  outboxStorage
	holder string // names this process to the store
	send   func(context.Context, *delivery) error
	told   func(Delivery) // of each final or first result
	waits  []time.Duration

	ctx     context.Context
	workers sync.WaitGroup
	changed chan struct{}

	mu    sync.Mutex
	lines map[string]chan *delivery // by channel
	hand  map[*delivery]bool        // all that is not sent, or not noted
}

// start lets put begin to send, until ctx is done.
func (o *outbox) start(ctx context.Context) { o.ctx = ctx }

// put takes a message, unless too many wait already: then it is noted as failed.
func (o *outbox) put(d *delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting := 0
	for x := range o.hand {
		if x.ID != 0 && x.ID == d.ID {
			return
		}
		if x.Channel == d.Channel && !x.final {
			waiting++
		}
	}
	o.hand[d] = true
	if waiting >= queueLength {
		o.result(d, errors.New("too many messages wait to be sent"), true)
		return
	}
	o.wake()
	o.line(d.Channel) <- d // has room for all that wait
}

// line is the queue of a channel, with a worker of its own.
func (o *outbox) line(channel string) chan *delivery {
	l := o.lines[channel]
	if l == nil {
		l = make(chan *delivery, queueLength)
		o.lines[channel] = l
		if o.ctx != nil {
			o.workers.Go(func() { o.work(l) })
		}
	}
	return l
}

func (o *outbox) work(l chan *delivery) {
	for {
		select {
		case <-o.ctx.Done():
			return
		case d := <-l:
			o.try(l, d)
		}
	}
}

// try sends once. What has to be tried again waits for that without a worker.
func (o *outbox) try(l chan *delivery, d *delivery) {
	err := o.send(o.ctx, d)
	if o.ctx.Err() != nil {
		return // it is left to another process
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
			l <- d
		}
	})
}

// result enters what came of a try.
func (o *outbox) result(d *delivery, err error, final bool) {
	d.At, d.State, d.Error, d.Tries, d.final, d.noted = time.Now().UTC(), "sent", "", d.Tries+1, final, false
	if err != nil {
		d.State, d.Error = "failed", err.Error()
		if !final {
			d.State = "retrying"
		}
	}
	if final || d.Tries == 1 {
		o.told(d.Delivery)
	}
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// keep tells the store of what changes, and takes up what other processes left behind, until ctx is done.
func (o *outbox) keep(ctx context.Context) {
	o.take(ctx)
	next := time.After(takeEvery)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-o.changed:
			_ = o.note(ctx) // tried again at the next tick
		case <-next:
			next = time.After(takeEvery)
			if o.note(ctx) == nil { // else what is sent would be taken up again
				o.take(ctx)
			}
		}
	}
}

// leave waits for the workers and lets another process send what they have not sent. Nothing may be put any more.
func (o *outbox) leave(ctx context.Context) {
	o.workers.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*storeLimit)
	defer cancel()
	if o.note(ctx) == nil {
		_ = o.store.LeaveDeliveries(ctx, o.holder) // else others wait until they see that this process is gone
	}
}

// note tells the store of all that it does not know.
func (o *outbox) note(ctx context.Context) error {
	for d := o.unnoted(); d != nil; d = o.unnoted() {
		if err := o.noteOne(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (o *outbox) unnoted() *delivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	for d := range o.hand {
		if !d.noted {
			return d
		}
	}
	return nil
}

func (o *outbox) noteOne(ctx context.Context, d *delivery) error {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
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
	d.noted = err == nil && d.Tries == now.Tries
	if d.final && (d.noted || len(o.hand) > unnotedMost) {
		delete(o.hand, d)
	}
	return err
}

// take takes up what this process has to send and does not know of.
func (o *outbox) take(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	list, err := o.store.TakeDeliveries(ctx, o.holder)
	if err != nil {
		return
	}
	for _, w := range list {
		m := &Message{}
		if json.Unmarshal([]byte(w.Message), m) != nil {
			continue // of another version
		}
		o.put(&delivery{Delivery: w.Delivery, message: m, noted: true})
	}
}
