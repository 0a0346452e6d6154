package alert

import (
	"slices"
	"strings"
	"time"
)

// receiver is a mail address or a webhook to which messages are sent.
type receiver struct {
	channel, address string
	routes           []Route
}

// name returns the receiver's name in the store.
func (r *receiver) name() string { return r.channel + " " + strings.ToLower(r.address) }

func (r *receiver) wants(a *Alert, owner string) bool {
	return slices.ContainsFunc(r.routes, func(x Route) bool { return x.wants(a, owner) })
}

// receivers returns everyone who is notified about alerts. An address that is listed twice is one receiver.
func (s *Settings) receivers() (list []receiver) {
	add := func(channel, address string, route Route) {
		r := receiver{channel: channel, address: address, routes: []Route{route}}
		i := slices.IndexFunc(list, func(x receiver) bool { return x.name() == r.name() })
		if i < 0 {
			list = append(list, r)
			return
		}
		list[i].routes = append(list[i].routes, route)
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

// notify queues the messages that are due.
func (a *Alerts) notify(s *Settings, now time.Time) {
	open := make([]Alert, 0, len(a.open))
	for _, o := range a.open {
		open = append(open, o.Alert)
	}
	list := s.receivers()
	for name, n := range a.receivers { // the addresses of topics with dead jobs
		channel, address, _ := strings.Cut(name, " ")
		listed := slices.ContainsFunc(list, func(r receiver) bool { return r.name() == name })
		if len(n.Dead) > 0 && !listed && channel == mailChannel && s.Mail.Host != "" {
			list = append(list, receiver{channel: channel, address: address})
		}
	}
	for i := range list {
		a.notifyOne(s, &list[i], open, now)
	}
}

// notified returns what a receiver was notified about.
func (a *Alerts) notified(r receiver) *Notified {
	n := a.receivers[r.name()]
	if n == nil {
		n = &Notified{}
		a.receivers[r.name()] = n
	}
	return n
}

func (a *Alerts) notifyOne(s *Settings, r *receiver, open []Alert, now time.Time) {
	was := a.notified(*r)
	was.calm(s, now)
	was.better(open)
	n := was.news(open, func(x *Alert) bool { return r.wants(x, a.opts.Owner(x.Topic)) }, now)
	if !was.due(&n, s, now) {
		return
	}
	say := a.opts.Say(s.Language)
	next := was.after(&n, say, now)
	a.receivers[r.name()] = next
	m := a.compose(&n, say, now)
	m.Thread, m.First = next.Thread, len(was.Alerts) == 0
	if m.Thread == "" {
		m.Thread = was.Thread
	}
	a.outbox.add(newOutgoing(r.channel, r.address, m))
}
