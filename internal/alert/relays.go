package alert

import (
	"context"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe/relays"
	"github.com/wakecall/wakecall/internal/registry"
)

var relayKinds = []string{"relay_set_aside", "relay_late", "relay_silent"}

// relays finds outbox tables with rows that are set aside or late, and those whose relays report no more. Those of a
// kind are one cause.
func (w *Watch) relays(ctx context.Context, now time.Time) ([]Finding, error) {
	if w.src.Relays == nil {
		return nil, nil
	}
	if !w.src.RegistryUp() {
		return nil, registry.ErrUnavailable
	}
	list, err := w.src.Relays(ctx)
	if err != nil {
		return nil, err
	}
	return judgeRelays(list, now), nil
}

func judgeRelays(list []relays.Relay, now time.Time) (found []Finding) {
	causes, names := map[string]*Cause{}, map[string][]string{}
	add := func(kind, name string, n int64, since time.Duration) {
		if causes[kind] == nil {
			causes[kind] = &Cause{Kind: kind, Severity: Warning}
		}
		c := causes[kind]
		c.N, c.For = c.N+n, max(c.For, since.Round(time.Second))
		names[kind] = append(names[kind], name)
	}
	for _, r := range list {
		name := r.Name
		if r.Report.Error != "" {
			name += " (" + r.Report.Error + ")"
		}
		if r.Report.SetAside > 0 {
			add("relay_set_aside", r.Name, r.Report.SetAside, 0)
		}
		switch r.State(now) {
		case relays.Silent:
			add("relay_silent", r.Name, r.Report.Waiting, now.Sub(r.SeenAt))
		case relays.Late:
			add("relay_late", name, r.Report.Waiting, r.Oldest())
		}
	}
	for _, kind := range relayKinds {
		if c := causes[kind]; c != nil {
			c.Text = message.Plain(strings.Join(names[kind], ", "))
			found = append(found, Finding{Cause: *c})
		}
	}
	return found
}
