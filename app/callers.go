package app

import "github.com/wakecall/wakecall/callback"

// newCaller makes what calls addresses that people set: endpoints and webhooks of alerts.
func (p *parts) newCaller() (*callback.Caller, error) {
	return callback.New(callback.Options{Networks: p.cfg.Callback.Networks, Version: p.version})
}
