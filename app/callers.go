package app

import (
	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/callback"
)

// newCaller makes what calls addresses that people set: endpoints and webhooks of alerts.
func (p *parts) newCaller() (*callback.Caller, error) {
	return callback.New(callback.Options{Networks: p.cfg.Callback.Networks, Version: p.version})
}

// topicsParts are what the pages of topics and jobs work with.
func (p *parts) topicsParts(caller *callback.Caller) admin.TopicsParts {
	return admin.TopicsParts{Activity: activity.NewReader(p.queue), Caller: caller}
}
