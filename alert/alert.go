package alert

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Finding is something that is wrong now.
type Finding struct {
	Kind     string // shard_down, topic_failing, …
	Severity string
	Subject  string // in one line
	Detail   string
	Topic    string
	Shard    string
}

// Key tells one trouble from another.
func (f *Finding) Key() string { return f.Kind + "/" + f.Shard + "/" + f.Topic }

// Storage is where alerts are kept and hosts agree on which one of them tells people; a Store is one.
type Storage interface {
	alertStorage
	outboxStorage
}

type alertStorage interface {
	RaiseAlert(ctx context.Context, a Alert) (stored Alert, raised bool, err error)
	EndAlert(ctx context.Context, key, host string, at time.Time) (stored Alert, ended bool, err error)
	ClaimReminder(ctx context.Context, id uint64, after time.Duration, at time.Time) (bool, error)
	ListAlerts(ctx context.Context, f Filter) ([]Alert, error)
}

// Options of Alerts.
type Options struct {
	Store      Storage
	Settings   func() (Settings, error)
	Find       func(ctx context.Context, r Rules) ([]Finding, Judge) // all that is wrong now
	Dead       func(ctx context.Context) []Dead                      // jobs whose death nobody was told of yet; nil: no digests
	Host       string
	AdminURL   string       // of the web admin, for links; may be empty
	Web        *http.Client // of webhooks: it says where they may lead
	Every      time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Alerts watches and tells. Run is its life.
type Alerts struct {
	opts   Options
	outbox *outbox
	open   map[string]*open // what this host finds or has taken over, by key; the round's alone
	begun  bool             // open holds what an earlier run of this host left
	swept  time.Time        // when alerts that nobody finds any more were looked for
	digest time.Time
	hung   bool // the store has kept this round waiting; it is not asked again in it

	mu       sync.Mutex
	settings Settings // the last that could be read

	sent *prometheus.CounterVec
}

// open is an alert as this host knows it.
type open struct {
	alert    Alert
	stored   bool // the store knows it
	told     bool // somebody was told that it began
	over     bool // and that it ended, which the store does not know yet
	seen     time.Time
	reminded time.Time
}

const (
	every      = 5 * time.Second
	touchEvery = 30 * time.Second // of what the store knows already
	staleAfter = 5 * time.Minute
	findLimit  = 4 * time.Second // of a look at all
	storeLimit = time.Second     // of one question to the store

	mailChannel = "mail"
)

// New makes alerts.
func New(o Options) *Alerts {
	if o.Every <= 0 {
		o.Every = every
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Alerts{opts: o, open: map[string]*open{}, settings: Defaults()}
	a.sent = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wakecall_alert_deliveries_total", Help: "Messages about alerts by channel and state."},
		[]string{"channel", "state"})
	if o.Registerer != nil {
		o.Registerer.MustRegister(a.sent)
	}
	a.outbox = &outbox{
		store: o.Store, holder: o.Host + "/" + rand.Text(), send: a.send, told: a.note, waits: waits,
		changed: make(chan struct{}, 1), lines: map[string]chan *delivery{}, hand: map[*delivery]bool{},
	}
	return a
}

// Run watches and sends until ctx is done. Messages that wait then are left to the next run, or to another host.
func (a *Alerts) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer a.outbox.leave(ctx)
	defer wg.Wait()
	a.outbox.start(ctx)
	wg.Go(func() { a.outbox.keep(ctx) })
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

func (a *Alerts) note(d Delivery) {
	a.sent.WithLabelValues(d.Channel, d.State).Inc()
	if d.State != "sent" {
		a.opts.Logger.Warn("a message about an alert was not sent", "channel", d.Channel, "recipient", d.Recipient, "subject", d.Subject, "tries", d.Tries, "error", d.Error)
	}
}

// send sends by the settings of this moment: a password that was corrected meanwhile helps.
func (a *Alerts) send(ctx context.Context, d *delivery) error {
	s := a.current()
	if d.Channel == mailChannel {
		return SendMail(ctx, s.Mail, d.Recipient, d.message)
	}
	for _, w := range s.Webhooks {
		if w.Name == d.Channel {
			return SendWebhook(ctx, a.opts.Web, w, d.message)
		}
	}
	return fmt.Errorf("there is no webhook %s any more", d.Channel)
}

func (a *Alerts) current() Settings {
	s, err := a.opts.Settings()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.settings = s
	} else {
		a.opts.Logger.Warn("the settings of alerts cannot be read; those last seen hold", "error", err)
	}
	return a.settings
}

// round looks once.
func (a *Alerts) round(ctx context.Context) {
	s := a.current()
	a.hung = false
	a.adopt(ctx, time.Now().UTC())
	found := map[string]bool{}
	list, over := a.find(ctx, s.Rules)
	if ctx.Err() != nil {
		return // this process ends, and may not have seen all
	}
	now := time.Now().UTC()
	for _, f := range list {
		found[f.Key()] = true
		a.hold(ctx, s, f, now)
	}
	for key, o := range a.open {
		if !found[key] && over(o.alert) {
			a.end(ctx, s, key, o, now)
		}
	}
	a.digests(ctx, s, now)
}

func (a *Alerts) find(ctx context.Context, r Rules) ([]Finding, Judge) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	return a.opts.Find(ctx, r)
}

// ask puts a question to the store. One that hangs costs a round no more than storeLimit: what is found about Redis must get out. A process
// that ends waits for the answer: who was to tell people must still leave the message in the outbox.
func (a *Alerts) ask(ctx context.Context, question func(context.Context) error) error {
	if a.hung {
		return errHung
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	err := question(ctx)
	a.hung = err != nil && ctx.Err() != nil
	return err
}

var errHung = errors.New("the store does not answer")

// adopt takes over alerts whose finders are gone: those of an earlier run of this host, and those that nobody has found for a while.
// They end when this host can tell that they are over.
func (a *Alerts) adopt(ctx context.Context, now time.Time) {
	if now.Sub(a.swept) < time.Minute {
		return
	}
	yes := true
	var list []Alert
	err := a.ask(ctx, func(ctx context.Context) (err error) {
		list, err = a.opts.Store.ListAlerts(ctx, Filter{Open: &yes, Limit: 1000})
		return err
	})
	if err != nil {
		return
	}
	for _, alert := range list {
		mine := !a.begun && alert.Host == a.opts.Host
		if a.open[alert.Key] == nil && (mine || now.Sub(alert.LastSeenAt) >= staleAfter) {
			a.open[alert.Key] = &open{alert: alert, stored: true, told: true, reminded: alert.RemindedAt}
		}
	}
	a.begun, a.swept = true, now
}

// hold notes that something is wrong, and tells of it when it is new or has lasted.
func (a *Alerts) hold(ctx context.Context, s Settings, f Finding, now time.Time) {
	key := f.Key()
	o := a.open[key]
	if o == nil {
		o = &open{alert: Alert{
			Key: key, Kind: f.Kind, Severity: f.Severity, Subject: f.Subject, Topic: f.Topic, Shard: f.Shard, Host: a.opts.Host, BeganAt: now,
		}, reminded: now}
		a.open[key] = o
		a.opts.Logger.Error("an alert begins", "kind", f.Kind, "subject", f.Subject, "detail", f.Detail)
	}
	o.alert.Detail = f.Detail
	if o.over {
		o.over = false
		a.tell(s, Begins, o.alert, now)
	}
	if !o.stored || now.Sub(o.seen) >= touchEvery {
		a.store(ctx, s, o, now)
	}
	if now.Sub(o.reminded) >= s.RemindAfter.Std() {
		a.remind(ctx, s, o, now)
	}
}

func (a *Alerts) store(ctx context.Context, s Settings, o *open, now time.Time) {
	var stored Alert
	var raised bool
	report := o.alert
	report.Host = a.opts.Host // another one may have raised it
	err := a.ask(ctx, func(ctx context.Context) (err error) {
		stored, raised, err = a.opts.Store.RaiseAlert(ctx, report)
		return err
	})
	o.seen = now
	if err != nil && !o.told { // somebody must be told, and nobody can be asked who does it
		o.told = true
		a.tell(s, Begins, o.alert, now)
	}
	if err != nil || stored.ID == 0 {
		return
	}
	tell := raised && !o.told
	o.alert, o.stored, o.told = stored, true, true
	if tell {
		a.tell(s, Begins, o.alert, now)
	}
}

func (a *Alerts) remind(ctx context.Context, s Settings, o *open, now time.Time) {
	o.reminded = now
	if o.stored {
		var mine bool
		err := a.ask(ctx, func(ctx context.Context) (err error) {
			mine, err = a.opts.Store.ClaimReminder(ctx, o.alert.ID, s.RemindAfter.Std(), now)
			return err
		})
		if err == nil && !mine {
			return
		}
	}
	a.tell(s, Lasts, o.alert, now)
}

// end closes what this host does not find any more. It is tried again while other hosts find it, or the store cannot note it.
func (a *Alerts) end(ctx context.Context, s Settings, key string, o *open, now time.Time) {
	alert, ended := o.alert, true
	if o.stored {
		var stored Alert
		err := a.ask(ctx, func(ctx context.Context) (err error) {
			stored, ended, err = a.opts.Store.EndAlert(ctx, key, a.opts.Host, now)
			return err
		})
		if err != nil {
			if o.told && !o.over { // tell now, note later
				o.over = true
				a.tell(s, Ends, o.alert, now)
			}
			return
		}
		if !ended && stored.ID != 0 {
			o.seen = time.Time{} // should this host find it again, it says so at once
			return
		}
		if ended {
			alert = stored
		}
	}
	delete(a.open, key)
	a.opts.Logger.Info("an alert is over", "kind", alert.Kind, "subject", alert.Subject, "lasted", now.Sub(alert.BeganAt).Round(time.Second).String())
	if ended && o.told && !o.over {
		a.tell(s, Ends, alert, now)
	}
}

// tell puts a message about an alert into the outbox for everybody.
func (a *Alerts) tell(s Settings, p Phase, alert Alert, now time.Time) {
	a.tellTo(s, &Message{Phase: p, Alert: alert, Link: link(a.opts.AdminURL, &alert), At: now}, s.Recipients, true)
}

func (a *Alerts) tellTo(s Settings, m *Message, recipients []string, webhooks bool) {
	put := func(channel, recipient string) {
		a.outbox.put(&delivery{message: m, Delivery: Delivery{
			AlertID: m.Alert.ID, At: m.At, Channel: channel, Recipient: recipient, Subject: m.Subject(), State: "waiting",
		}})
	}
	if s.Mail.Host != "" {
		for _, to := range recipients {
			put(mailChannel, to)
		}
	}
	if !webhooks {
		return
	}
	for _, w := range s.Webhooks {
		put(w.Name, w.Preset)
	}
}

// link is the page of the admin that an alert is about.
func link(adminURL string, alert *Alert) string {
	if adminURL == "" {
		return ""
	}
	page := "/alerts"
	switch {
	case alert.Kind == "dead" || alert.Kind == "dead_jobs":
		page = "/dead?topic=" + url.QueryEscape(alert.Topic)
	case alert.Topic != "":
		page = "/topics/" + url.PathEscape(alert.Topic)
	case alert.Shard != "":
		page = "/shards"
	case alert.Kind == "registry" || alert.Kind == "journal":
		page = "/processes"
	case alert.Kind == "test":
		page = "/alerts/settings"
	}
	return strings.TrimRight(adminURL, "/") + page
}

// TestMessage is what people get to try a channel.
func TestMessage(host, adminURL string) *Message {
	now := time.Now().UTC()
	m := &Message{
		Phase: Test, At: now,
		Alert: Alert{Kind: "test", Severity: Warning, Subject: "a test message", Detail: "If you read this, messages about alerts arrive.", Host: host, BeganAt: now},
	}
	m.Link = link(adminURL, &m.Alert)
	return m
}

// Dead are jobs of a topic that died lately.
type Dead struct {
	Topic      string
	Recipients []string // the topic's addresses
	Count      int64
	Last       []DeadJob // some of them, the latest first
}

// DeadJob is one of them.
type DeadJob struct {
	ID    string
	Error string
}

const (
	digestEvery = time.Minute
	digestJobs  = 20
)

// digests mail dead jobs to their topics' addresses, a mail a topic and minute at most.
func (a *Alerts) digests(ctx context.Context, s Settings, now time.Time) {
	if a.opts.Dead == nil || a.hung || now.Sub(a.digest) < digestEvery {
		return
	}
	a.digest = now
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	dead := a.opts.Dead(ctx)
	if !s.DeadDigest {
		return
	}
	for _, d := range dead {
		alert := Alert{Kind: "dead_jobs", Severity: Warning, Topic: d.Topic, Subject: digestSubject(d), Host: a.opts.Host, BeganAt: now}
		m := &Message{Phase: Digest, Alert: alert, Link: link(a.opts.AdminURL, &alert), At: now}
		for _, j := range d.Last[:min(len(d.Last), digestJobs)] {
			m.Lines = append(m.Lines, j.ID+": "+j.Error)
		}
		a.tellTo(s, m, d.Recipients, false)
	}
}

func digestSubject(d Dead) string {
	if d.Count == 1 {
		return "a job of " + d.Topic + " is dead"
	}
	return fmt.Sprint(d.Count) + " jobs of " + d.Topic + " are dead"
}
