package app

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/server"
)

// apiAlerts are the alerts as the API shows them.
type apiAlerts struct {
	*alert.Store
	registry *registry.Registry
	say      alert.Say
}

func (p *parts) alerts() (server.Alerts, error) {
	say, err := sayings()
	if err != nil {
		return nil, err
	}
	return apiAlerts{alert.NewStore(p.registry.DB()).In(p.cfg.DataDir), p.registry, say("en")}, nil
}

// ListAlerts returns what this host's redis-checker knows while the database is unavailable.
func (a apiAlerts) ListAlerts(ctx context.Context, f alert.Filter) ([]alert.Alert, error) {
	list, _, err := a.List(ctx, f)
	return list, err
}

func (a apiAlerts) Say(code string, args ...any) string { return a.say(code, args...) }

func (a apiAlerts) Handle(ctx context.Context, actor, key, why string, until time.Time) error {
	return alert.Handle(ctx, a.registry, actor, key, why, until)
}
