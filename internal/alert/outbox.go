package alert

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// outgoing is a message that is waiting to be sent, or was sent but is not yet stored as such.
type outgoing struct {
	Delivery
	message *Message
	next    time.Time // of the next try
	saved   bool      // the store has this state
}

func newOutgoing(channel, recipient string, m *Message) *outgoing {
	text, _ := json.Marshal(m) // a Message has no values that JSON cannot represent
	return &outgoing{message: m, Delivery: Delivery{
		ID: rand.Text(), At: m.At, Channel: database.Clip(channel, 64), Recipient: database.Clip(recipient, 255),
		Subject: database.Clip(m.Subject(), 255), State: Waiting, Message: string(text),
	}}
}

const (
	queueLength = 500             // waiting messages of a channel
	sendersMost = 4               // receivers of a channel to which messages are being sent
	maxUnsaved  = 4 * queueLength // messages that were sent or failed while the store was unavailable
)

// retryWaits are the pauses before further tries.
var retryWaits = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 8 * time.Minute}

// outbox sends messages in the background, each channel independently of the others, and several receivers of a channel
// at once: a mail server may delay the mails to one of them. Rounds start the sending, and save messages and results.
// Stored messages that wait belong to the process that leads.
type outbox struct {
	send   func(context.Context, *outgoing) error
	report func(Delivery) // called with the first and the final result of each message
	waits  []time.Duration

	senders sync.WaitGroup

	mu      sync.Mutex
	pending map[string]*outgoing     // by ID: messages that are not sent, or not stored as sent
	busy    map[string]bool          // by receiver: messages are being sent
	slots   map[string]chan struct{} // by channel: holds an element for each receiver that is sent to
}

func newOutbox(send func(context.Context, *outgoing) error, report func(Delivery)) *outbox {
	return &outbox{
		send: send, report: report, waits: retryWaits,
		pending: map[string]*outgoing{}, busy: map[string]bool{}, slots: map[string]chan struct{}{},
	}
}

// add adds a message for deliver. If too many are waiting already, the message fails.
func (o *outbox) add(d *outgoing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting := 0
	for _, x := range o.pending {
		if x.Channel == d.Channel && !x.final() {
			waiting++
		}
	}
	o.pending[d.ID] = d
	if waiting >= queueLength {
		o.result(d, errors.New("too many messages are waiting to be sent"), true)
	}
}

// take adds messages that are in the store but not in this process.
func (o *outbox) take(list []Delivery) {
	for _, d := range list {
		o.mu.Lock()
		known := o.pending[d.ID] != nil
		o.mu.Unlock()
		m := &Message{}
		if known || json.Unmarshal([]byte(d.Message), m) != nil {
			continue
		}
		o.add(&outgoing{Delivery: d, message: m, saved: true})
	}
}

// handOver removes the stored messages that are waiting. The process that leads sends them.
func (o *outbox) handOver() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, d := range o.pending {
		if d.saved && !d.final() {
			delete(o.pending, id)
		}
	}
}

// deliver starts sending the messages that are due, to each idle receiver. Sending is canceled when ctx is done.
func (o *outbox) deliver(ctx context.Context, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	due := map[string][]*outgoing{}
	for _, d := range o.pending {
		if to := d.receiver(); !d.final() && !now.Before(d.next) && !o.busy[to] {
			due[to] = append(due[to], d)
		}
	}
	for to, list := range due {
		slices.SortFunc(list, func(a, b *outgoing) int { return a.message.At.Compare(b.message.At) })
		slots := o.slots[list[0].Channel]
		if slots == nil {
			slots = make(chan struct{}, sendersMost)
			o.slots[list[0].Channel] = slots
		}
		o.busy[to] = true
		o.senders.Go(func() {
			slots <- struct{}{}
			for _, d := range list {
				o.try(ctx, d)
			}
			<-slots
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.busy, to)
		})
	}
}

// receiver returns who gets the message, in one channel.
func (d *outgoing) receiver() string { return d.Channel + " " + d.Recipient }

// wait waits until nothing is being sent.
func (o *outbox) wait() { o.senders.Wait() }

// try sends a message once.
func (o *outbox) try(ctx context.Context, d *outgoing) {
	o.mu.Lock()
	mine := o.pending[d.ID] == d // otherwise it was handed over
	o.mu.Unlock()
	if !mine || ctx.Err() != nil {
		return
	}
	err := o.send(ctx, d)
	if err != nil && ctx.Err() != nil {
		return // another process sends it
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result(d, err, err == nil || d.Tries >= len(o.waits))
	if !d.final() {
		d.next = d.At.Add(o.waits[d.Tries-1])
	}
}

// result updates a message after a try.
func (o *outbox) result(d *outgoing, err error, final bool) {
	d.At, d.State, d.Error, d.Tries, d.saved = time.Now().UTC(), Sent, "", d.Tries+1, false
	if err != nil {
		d.State, d.Error = Retrying, database.Clip(err.Error(), 4000)
	}
	if err != nil && final {
		d.State = Failed
	}
	if d.final() {
		d.Message = ""
	}
	if d.final() || d.Tries == 1 {
		o.report(d.Delivery)
	}
	if d.final() && len(o.pending) > maxUnsaved {
		delete(o.pending, d.ID)
	}
}

// unsaved returns the messages whose state is not stored, optionally including waiting ones that were never stored.
func (o *outbox) unsaved(waiting bool) (list []Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range o.pending {
		if !d.saved && (waiting || d.final()) {
			list = append(list, d.Delivery)
		}
	}
	return list
}

// saved records that the store has these states.
func (o *outbox) saved(list []Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range list {
		d := o.pending[s.ID]
		if d == nil || d.Delivery != s {
			continue
		}
		if d.saved = true; d.final() {
			delete(o.pending, d.ID)
		}
	}
}
