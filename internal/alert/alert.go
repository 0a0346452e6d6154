package alert

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// Storage is the state that the hosts of an installation share. Store implements it.
type Storage interface {
	Sync(ctx context.Context, r Report) (Shared, error)
	Save(ctx context.Context, c *Changes) error
	Resign(ctx context.Context, process string) error
}

// Options configure Alerts.
type Options struct {
	Store           Storage
	Settings        func() (Settings, error)
	Find            func(ctx context.Context, r Rules) ([]Finding, Judge) // returns everything that is wrong now
	Dead            func(ctx context.Context) []DeadTopic                 // unreported dead jobs; nil: no digests
	Say             func(language string) Say
	Owner           func(topic string) string // returns a topic's owner; nil: topics have none
	Host            string
	Dir             string       // of the file with the alerts for this host's admin; empty: none
	AdminURL        string       // of the web admin, for links; may be empty
	AlertmanagerURL string       // empty: alerts are not sent to an Alertmanager
	Web             *http.Client // for webhooks and the Alertmanager: it restricts the addresses they may reach
	Every           time.Duration
	Logger          *slog.Logger
	Registerer      prometheus.Registerer
}

// Alerts detects problems and notifies people. Run starts it.
type Alerts struct {
	opts         Options
	process      string // names this process in the lease
	outbox       *outbox
	alertmanager *alertmanager
	storeLimit   time.Duration

	// Used only by the goroutine that makes the rounds.
	leads      bool                   // this process held the lease when the store last answered
	synced     time.Time              // when the store last answered
	open       map[string]*openAlert  // by key
	ended      []*Alert               // ended alerts that are not stored as such
	receivers  map[string]*Notified   // what each receiver was notified about, by its name
	begins     map[string][]time.Time // by cause: when it began in the last flapSpan
	mine       []Finding              // what this host found last
	others     []Finding              // what other hosts find
	lastDead   time.Time
	remembered time.Time // when the file of known alerts was last written

	mu       sync.Mutex
	settings Settings // the last ones read
	shown    shown

	sent *prometheus.CounterVec
}

const (
	defaultEvery = 5 * time.Second
	findLimit    = 10 * time.Second // 100,000 topics take several seconds
	storeLimit   = 3 * time.Second  // limits one call to the store: people must be notified about Redis in time
	leaseTTL     = 20 * time.Second // longer than the slowest round
	// reportLife is how long a host's findings count after its last report. It must not exceed the time for which an
	// alert lasts without findings. Otherwise reports from before an outage of the store would reopen an alert that
	// ended during the outage.
	reportLife = leaseTTL

	mailChannel = "mail"
	maxHost     = 128
)

// New returns Alerts.
func New(o Options) *Alerts {
	o.Every = cmp.Or(o.Every, defaultEvery)
	if o.Owner == nil {
		o.Owner = func(string) string { return "" }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Host = database.Clip(o.Host, maxHost)
	a := &Alerts{
		opts: o, process: database.Clip(o.Host, maxHost/2) + "/" + rand.Text(), storeLimit: storeLimit,
		open: map[string]*openAlert{}, receivers: map[string]*Notified{}, begins: map[string][]time.Time{},
		settings: Defaults(),
	}
	a.sent = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wakecall_alert_deliveries_total", Help: "Messages about alerts by channel and state.",
	}, []string{"channel", "state"})
	if o.Registerer != nil {
		o.Registerer.MustRegister(a)
	}
	a.outbox = newOutbox(a.send, a.report)
	a.alertmanager = newAlertmanager(o.AlertmanagerURL, o.AdminURL, o.Web, a.reportAlertmanager)
	return a
}

// Run makes rounds and sends messages until ctx is done. Messages that are still waiting then are left to the next
// process that leads.
func (a *Alerts) Run(ctx context.Context) error {
	defer a.leave(ctx)
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

// leave lets another process continue at once.
func (a *Alerts) leave(ctx context.Context) {
	a.outbox.wait()
	a.alertmanager.wait()
	if !a.sync(ctx, a.mine, time.Now().UTC()) {
		return // the lease expires before the store answers again
	}
	a.save(ctx, true)
	a.leads = false
	a.show(true)
	err := a.callStore(ctx, func(ctx context.Context) error { return a.opts.Store.Resign(ctx, a.process) })
	if err != nil {
		a.opts.Logger.Warn("end lease of alerts", "error", err)
	}
}

// round finds problems, shares them with the other hosts, and notifies people if this host evaluates alerts.
func (a *Alerts) round(ctx context.Context) {
	s := a.current()
	mine, over := a.find(ctx, s.Rules)
	if ctx.Err() != nil {
		return // this process is stopping, and may have missed findings
	}
	a.mine = mine
	now := time.Now().UTC().Truncate(time.Microsecond) // as the store has it
	synced := a.sync(ctx, mine, now)
	if a.evaluates(now) {
		a.evaluate(ctx, &s, mine, over, now)
		if synced {
			a.collectDead(ctx, &s, now)
		}
		a.notify(&s, now)
		a.alertmanager.update(ctx, a.known(), a.opts.Say(s.Language), now)
	} else {
		a.alertmanager.forget()
	}
	a.show(synced)
	if synced {
		a.save(ctx, a.leads)
	}
	a.remember(synced, now)
	a.outbox.deliver(ctx, now) // after saving: a message missing from the store would be sent again after a crash
}

// evaluates reports whether this host evaluates alerts: it holds the lease, or the store is unavailable and the lease
// has expired.
func (a *Alerts) evaluates(now time.Time) bool { return a.leads || now.Sub(a.synced) >= leaseTTL }

// known returns the open alerts, then those that have ended and are not stored as such.
func (a *Alerts) known() (list []*Alert) {
	for _, o := range a.open {
		list = append(list, &o.Alert)
	}
	return append(list, a.ended...)
}

func (a *Alerts) find(ctx context.Context, r Rules) ([]Finding, Judge) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	list, over := a.opts.Find(ctx, r)
	for i := range list {
		list[i].Host = a.opts.Host
	}
	return list, over
}

// callStore limits the time of a call to the store. It waits for the reply even if the process stops.
func (a *Alerts) callStore(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.storeLimit)
	defer cancel()
	return call(ctx)
}

func (a *Alerts) current() Settings {
	s, err := a.opts.Settings()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.settings = s
	} else {
		a.opts.Logger.Warn("cannot read alert settings; keeping the last ones", "error", err)
	}
	return a.settings
}

// send uses the current settings, so that a password corrected in the meantime takes effect.
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

// report counts and logs the result of a delivery.
func (a *Alerts) report(d Delivery) {
	a.sent.WithLabelValues(d.Channel, d.State).Inc()
	if d.State != Sent {
		a.opts.Logger.Warn("alert message not sent", "channel", d.Channel, "recipient", d.Recipient,
			"subject", d.Subject, "tries", d.Tries, "error", d.Error)
	}
}

func (a *Alerts) reportAlertmanager(err error) {
	d := Delivery{Channel: "alertmanager", State: Sent}
	if err != nil {
		d.State, d.Error = Retrying, err.Error()
	}
	a.report(d)
}
