package alert

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Storage stores alerts, and lets hosts agree on which one of them sends a message. Store implements it.
type Storage interface {
	alertStorage
	outboxStorage
}

type alertStorage interface {
	RaiseAlert(ctx context.Context, a Alert) (stored Alert, err error)
	EndAlert(ctx context.Context, key, host string, at time.Time) (over bool, err error)
	ListAlerts(ctx context.Context, f Filter) ([]Alert, error)
	ListTold(ctx context.Context) (map[string]*Told, error)
	SaveTold(ctx context.Context, person string, t *Told) (saved bool, err error)
}

// Options configure Alerts.
type Options struct {
	Store      Storage
	Settings   func() (Settings, error)
	Find       func(ctx context.Context, r Rules) ([]Finding, Judge) // returns everything that is wrong now
	Dead       func(ctx context.Context) []DeadTopic                 // unreported dead jobs; nil: no digests
	Say        func(language string) Say
	Owner      func(topic string) string // returns a topic's owner; nil: topics have none
	Host       string
	AdminURL   string       // of the web admin, for links; may be empty
	Web        *http.Client // for webhooks: it restricts the addresses they may reach
	Every      time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Alerts detects problems and notifies people. Run starts it.
type Alerts struct {
	opts       Options
	outbox     *outbox
	storeLimit time.Duration

	// Used only by the goroutine that makes the rounds.
	open       map[string]*openAlert // by key: what this host finds or has adopted
	told       map[string]*Told      // what each person was notified about, by person
	adopted    bool                  // open contains what an earlier run of this host left
	lastAdopt  time.Time
	lastTold   time.Time
	lastDead   time.Time
	storeHangs bool // a call to the store timed out in this round, so the round makes no more

	mu       sync.Mutex
	settings Settings // the last ones that could be read

	sent *prometheus.CounterVec
}

const (
	defaultEvery = 5 * time.Second
	findLimit    = 10 * time.Second // 100,000 topics take several seconds
	storeLimit   = time.Second      // limits one call to the store

	mailChannel = "mail"
)

// New returns Alerts.
func New(o Options) *Alerts {
	o.Every = cmp.Or(o.Every, defaultEvery)
	if o.Owner == nil {
		o.Owner = func(string) string { return "" }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	a := &Alerts{
		opts: o, storeLimit: storeLimit, open: map[string]*openAlert{}, told: map[string]*Told{}, settings: Defaults(),
	}
	a.sent = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_alert_deliveries_total", Help: "Messages about alerts by channel and state.",
	}, []string{"channel", "state"})
	if o.Registerer != nil {
		o.Registerer.MustRegister(a.sent)
	}
	a.outbox = newOutbox(o.Store, o.Host+"/"+rand.Text(), a.send, a.report)
	return a
}

// Run makes rounds and sends messages until ctx is done. It leaves messages that still wait then to the next run, or to
// another host.
func (a *Alerts) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer a.outbox.leave(ctx)
	defer wg.Wait()
	a.outbox.start(ctx)
	wg.Go(func() { a.outbox.sync(ctx) })
	for {
		next := time.After(a.opts.Every)
		a.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

// report counts and logs the result of a delivery.
func (a *Alerts) report(d Delivery) {
	a.sent.WithLabelValues(d.Channel, d.State).Inc()
	if d.State != Sent {
		a.opts.Logger.Warn("a message about an alert was not sent", "channel", d.Channel, "recipient", d.Recipient,
			"subject", d.Subject, "tries", d.Tries, "error", d.Error)
	}
}

// send sends with the current settings, so a password corrected in the meantime takes effect.
func (a *Alerts) send(ctx context.Context, d *outgoing) error {
	s := a.current()
	if d.Channel == mailChannel {
		return SendMail(ctx, s.Mail, d.Recipient, d.message)
	}
	for _, w := range s.Webhooks {
		if w.Name == d.Channel {
			return SendWebhook(ctx, a.opts.Web, w, d.message)
		}
	}
	return fmt.Errorf("webhook %s was removed", d.Channel)
}

func (a *Alerts) current() Settings {
	s, err := a.opts.Settings()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.settings = s
	} else {
		a.opts.Logger.Warn("the settings of alerts cannot be read; the last ones stay in use", "error", err)
	}
	return a.settings
}

func (a *Alerts) round(ctx context.Context) {
	s := a.current()
	a.storeHangs = false
	a.adopt(ctx, time.Now().UTC())
	findings, over := a.find(ctx, s.Rules)
	if ctx.Err() != nil {
		return // this process ends, and may have missed findings
	}
	now := time.Now().UTC()
	byKey := map[string][]Finding{}
	for _, f := range findings {
		byKey[f.Key()] = append(byKey[f.Key()], f)
	}
	for key, list := range byKey {
		a.raise(key, list, now)
	}
	for key, o := range a.open {
		a.settle(ctx, &s, key, o, over, now)
	}
	a.tell(ctx, &s, now)
}

func (a *Alerts) find(ctx context.Context, r Rules) ([]Finding, Judge) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	return a.opts.Find(ctx, r)
}

var errStoreHangs = errors.New("the store does not answer")

// callStore limits the time of a call to the store, and skips the rest of a round's calls after a timeout: people must
// be notified about Redis in time. When the process ends, callStore waits for the answer, because the host that is to
// notify people must still queue the message.
func (a *Alerts) callStore(ctx context.Context, call func(context.Context) error) error {
	if a.storeHangs {
		return errStoreHangs
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.storeLimit)
	defer cancel()
	err := call(ctx)
	a.storeHangs = err != nil && ctx.Err() != nil
	return err
}
