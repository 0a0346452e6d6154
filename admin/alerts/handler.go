// Package alerts is the pages about alerts: those that are open or ended, what was sent about them, and where and when
// it is sent.
package alerts

import (
	"context"
	"net/http"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/registry"
)

// Store keeps alerts and the messages about them; *alert.Store implements it.
type Store interface {
	ListAlerts(ctx context.Context, f alert.Filter) ([]alert.Alert, error)
	ListDeliveries(ctx context.Context, limit int) ([]alert.Delivery, error)
}

// Options of a Handler.
type Options struct {
	Registry *registry.Registry
	Alerts   Store
	AdminURL string                                                      // for the links of test messages
	Web      *http.Client                                                // of webhooks that are tested
	TestMail func(m alert.Mail, to string, message *alert.Message) error // nil: alert.SendMail
}

// Handler serves the pages of this room.
type Handler struct {
	*page.Base
	Options
}

// New makes a Handler.
func New(b *page.Base, o Options) *Handler { return &Handler{Base: b, Options: o} }
