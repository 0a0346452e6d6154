package alert

import (
	"context"
	"slices"
	"strings"
	"time"
)

// person is a recipient of messages: a mail address, or a webhook.
type person struct {
	channel, address string
	routes           []Route
}

// name returns the person's name in the store.
func (p *person) name() string { return p.channel + " " + strings.ToLower(p.address) }

func (p *person) wants(a *Alert, owner string) bool {
	return slices.ContainsFunc(p.routes, func(r Route) bool { return r.wants(a, owner) })
}

// people returns everyone who is notified about alerts. An address that is listed twice is one person.
func (s *Settings) people() (list []person) {
	add := func(channel, address string, r Route) {
		p := person{channel: channel, address: address, routes: []Route{r}}
		i := slices.IndexFunc(list, func(x person) bool { return x.name() == p.name() })
		if i < 0 {
			list = append(list, p)
			return
		}
		list[i].routes = append(list[i].routes, r)
	}
	for _, r := range s.Recipients {
		if s.Mail.Host != "" {
			add(mailChannel, addressOf(r.Address), r.Route)
		}
	}
	for _, w := range s.Webhooks {
		add(w.Name, w.Preset, w.Only)
	}
	return list
}

// tell sends each person the messages that are due.
func (a *Alerts) tell(ctx context.Context, s *Settings, now time.Time) {
	if a.quiet() && now.Sub(a.lastTold) < adoptEvery {
		a.collectDead(ctx, s, now)
		return
	}
	a.lastTold = now
	a.syncTold(ctx) // before listing the open alerts: one that began in between would seem to be over
	open, unknown := a.openNow(ctx)
	a.collectDead(ctx, s, now)
	people := s.people()
	for name, t := range a.told {
		channel, address, _ := strings.Cut(name, " ")
		listed := slices.ContainsFunc(people, func(p person) bool { return p.name() == name })
		if len(t.Dead) > 0 && !listed && channel == mailChannel && s.Mail.Host != "" {
			people = append(people, person{channel: channel, address: address})
		}
	}
	for i := range people {
		a.tellPerson(ctx, s, &people[i], open, unknown, now)
	}
}

// quiet reports whether there is nothing to report.
func (a *Alerts) quiet() bool {
	for _, t := range a.told {
		if t.unsaved || len(t.Alerts)+len(t.Dead) > 0 {
			return false
		}
	}
	return len(a.open) == 0
}

// openNow returns the open alerts. While the store is unavailable, these are the alerts of this host, and unknown has
// the keys of reported alerts that other hosts may still find.
func (a *Alerts) openNow(ctx context.Context) (list []Alert, unknown map[string]bool) {
	list, err := a.listOpen(ctx)
	listed := map[string]bool{}
	for _, x := range list {
		listed[x.Key] = true
		if o := a.open[x.Key]; o != nil {
			o.alert.Handling = x.Handling
		}
	}
	for key, o := range a.open {
		if !o.over && !listed[key] && (err != nil || !o.stored) { // otherwise it has ended meanwhile
			list = append(list, o.alert)
		}
	}
	if err == nil {
		return list, nil
	}
	unknown = map[string]bool{}
	for _, t := range a.told {
		for key := range t.Alerts {
			unknown[key] = a.open[key] == nil
		}
	}
	return list, unknown
}

// syncTold reads what other hosts reported, and stores what this one reported while the store was unavailable.
func (a *Alerts) syncTold(ctx context.Context) {
	var stored map[string]*Told
	err := a.callStore(ctx, func(ctx context.Context) (err error) {
		stored, err = a.opts.Store.ListTold(ctx)
		return err
	})
	if err != nil {
		return
	}
	for name, mine := range a.told {
		if !mine.unsaved {
			continue
		}
		if theirs := stored[name]; theirs != nil && theirs.version != mine.version {
			theirs.merge(mine)
			mine = theirs
		}
		stored[name] = mine
		a.save(ctx, name, mine)
	}
	a.told = stored
}

// save stores what a person was notified about, and returns false if another host did so first.
func (a *Alerts) save(ctx context.Context, name string, t *Told) bool {
	saved := false
	err := a.callStore(ctx, func(ctx context.Context) (err error) {
		saved, err = a.opts.Store.SaveTold(ctx, name, t)
		return err
	})
	t.unsaved = err != nil || !saved
	return saved || err != nil // while the store is unavailable each host notifies people
}

func (a *Alerts) toldTo(p person) *Told {
	t := a.told[p.name()]
	if t == nil {
		t = &Told{}
		a.told[p.name()] = t
	}
	return t
}

func (a *Alerts) tellPerson(
	ctx context.Context, s *Settings, p *person, open []Alert, unknown map[string]bool, now time.Time,
) {
	t := a.toldTo(*p)
	t.calm(s, now)
	t.better(open)
	wants := func(x *Alert) bool { return p.wants(x, a.opts.Owner(x.Topic)) }
	n := t.news(open, wants, unknown, now)
	if !t.due(&n, s, now) {
		return
	}
	say := a.opts.Say(s.Language)
	next := t.after(&n, say, now)
	if !a.save(ctx, p.name(), next) {
		return
	}
	a.told[p.name()] = next
	m := a.compose(&n, say, now)
	m.Thread, m.First = next.Thread, len(t.Alerts) == 0
	if m.Thread == "" {
		m.Thread = t.Thread
	}
	a.outbox.put(&outgoing{message: m, Delivery: Delivery{
		AlertID: m.Alert.ID, At: now, Channel: p.channel, Recipient: p.address, Subject: m.Subject(), State: Waiting,
	}})
}
