package alert

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// openAlert is an alert as this host knows it.
type openAlert struct {
	alert     Alert
	stored    bool // the store knows it
	toldBegin bool // people were told that it began
	toldEnd   bool // people were told that it ended, which the store does not know yet
	storedAt  time.Time
	reminded  time.Time
}

const (
	touchEvery = 30 * time.Second // for alerts that the store knows already
	adoptEvery = time.Minute
	staleAfter = 5 * time.Minute
	adoptLimit = 1000
)

// adopt takes over alerts whose finders are gone: those of an earlier run of this host, and those that nobody has
// found for a while. They end when this host can tell that they are over.
func (a *Alerts) adopt(ctx context.Context, now time.Time) {
	if now.Sub(a.lastAdopt) < adoptEvery {
		return
	}
	onlyOpen := true
	var list []Alert
	err := a.callStore(ctx, func(ctx context.Context) (err error) {
		list, err = a.opts.Store.ListAlerts(ctx, Filter{Open: &onlyOpen, Limit: adoptLimit})
		return err
	})
	if err != nil {
		return
	}
	for _, alert := range list {
		mine := !a.adopted && alert.Host == a.opts.Host
		if a.open[alert.Key] == nil && (mine || now.Sub(alert.LastSeenAt) >= staleAfter) {
			a.open[alert.Key] = &openAlert{alert: alert, stored: true, toldBegin: true, reminded: alert.RemindedAt}
		}
	}
	a.adopted, a.lastAdopt = true, now
}

// raise opens an alert for a finding or updates the open one, and tells people if it is new or has lasted.
func (a *Alerts) raise(ctx context.Context, s Settings, f Finding, now time.Time) {
	key := f.Key()
	o := a.open[key]
	if o == nil {
		o = &openAlert{alert: Alert{
			Key: key, Kind: f.Kind, Severity: f.Severity, Subject: f.Subject, Topic: f.Topic, Shard: f.Shard,
			Host: a.opts.Host, BeganAt: now,
		}, reminded: now}
		a.open[key] = o
		a.opts.Logger.Error("an alert begins", "kind", f.Kind, "subject", f.Subject, "detail", f.Detail)
	}
	o.alert.Detail = f.Detail
	if o.toldEnd {
		o.toldEnd = false
		a.tell(s, Begins, o.alert, now)
	}
	if !o.stored || now.Sub(o.storedAt) >= touchEvery {
		a.store(ctx, s, o, now)
	}
	if now.Sub(o.reminded) >= s.RemindAfter.Std() {
		a.remind(ctx, s, o, now)
	}
}

func (a *Alerts) store(ctx context.Context, s Settings, o *openAlert, now time.Time) {
	var stored Alert
	var raised bool
	report := o.alert
	report.Host = a.opts.Host // another one may have raised it
	err := a.callStore(ctx, func(ctx context.Context) (err error) {
		stored, raised, err = a.opts.Store.RaiseAlert(ctx, report)
		return err
	})
	o.storedAt = now
	if err != nil && !o.toldBegin { // people must be told, and the hosts cannot agree on who does it
		o.toldBegin = true
		a.tell(s, Begins, o.alert, now)
	}
	if err != nil || stored.ID == 0 {
		return
	}
	tell := raised && !o.toldBegin
	o.alert, o.stored, o.toldBegin = stored, true, true
	if tell {
		a.tell(s, Begins, o.alert, now)
	}
}

func (a *Alerts) remind(ctx context.Context, s Settings, o *openAlert, now time.Time) {
	o.reminded = now
	if o.stored {
		var claimed bool
		err := a.callStore(ctx, func(ctx context.Context) (err error) {
			claimed, err = a.opts.Store.ClaimReminder(ctx, o.alert.ID, s.RemindAfter.Std(), now)
			return err
		})
		if err == nil && !claimed {
			return
		}
	}
	a.tell(s, Lasts, o.alert, now)
}

// end closes an alert that this host no longer finds. It is tried again while other hosts find it, or the store is
// away.
func (a *Alerts) end(ctx context.Context, s Settings, key string, o *openAlert, now time.Time) {
	alert, ended := o.alert, true
	if o.stored {
		var stored Alert
		err := a.callStore(ctx, func(ctx context.Context) (err error) {
			stored, ended, err = a.opts.Store.EndAlert(ctx, key, a.opts.Host, now)
			return err
		})
		if err != nil {
			if o.toldBegin && !o.toldEnd { // tell now, store later
				o.toldEnd = true
				a.tell(s, Ends, o.alert, now)
			}
			return
		}
		if !ended && stored.ID != 0 {
			o.storedAt = time.Time{} // if this host finds it again, it says so at once
			return
		}
		if ended {
			alert = stored
		}
	}
	delete(a.open, key)
	a.opts.Logger.Info("an alert is over", "kind", alert.Kind, "subject", alert.Subject,
		"lasted", now.Sub(alert.BeganAt).Round(time.Second).String())
	if ended && o.toldBegin && !o.toldEnd {
		a.tell(s, Ends, alert, now)
	}
}

// tell queues a message about an alert for all recipients and webhooks.
func (a *Alerts) tell(s Settings, p Phase, alert Alert, now time.Time) {
	a.queue(s, &Message{Phase: p, Alert: alert, Link: link(a.opts.AdminURL, &alert), At: now}, s.Recipients, true)
}

func (a *Alerts) queue(s Settings, m *Message, recipients []string, webhooks bool) {
	put := func(channel, recipient string) {
		a.outbox.put(&outgoing{message: m, Delivery: Delivery{
			AlertID: m.Alert.ID, At: m.At, Channel: channel, Recipient: recipient, Subject: m.Subject(), State: Waiting,
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

// TestMessage is a message that tries out a channel.
func TestMessage(host, adminURL string) *Message {
	now := time.Now().UTC()
	m := &Message{Phase: Test, At: now, Alert: Alert{
		Kind: "test", Severity: Warning, Subject: "a test message", Host: host, BeganAt: now,
		Detail: "If you read this, messages about alerts arrive.",
	}}
	m.Link = link(adminURL, &m.Alert)
	return m
}
