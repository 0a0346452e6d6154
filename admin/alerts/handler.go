// Package alerts serves the pages about alerts: open and ended ones, the messages about them, and the settings for
// where and when to send messages.
package alerts

import (
	"context"
	"net/http"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/registry"
)

// Options are what the pages of this package need.
type Options struct {
	*page.Pages

	Registry *registry.Registry
	Alerts   *alert.Store
	Web      *http.Client // for tests of webhooks
	// SendMail sends a test message; alert.SendMail in production.
	SendMail func(ctx context.Context, m alert.Mail, to string, message *alert.Message) error

	Host     string // this host, for test messages
	AdminURL string // this admin's public address, for links in test messages
}

// Handler serves the pages of this package.
type Handler struct{ Options }

// New returns a Handler.
func New(o Options) *Handler { return &Handler{o} }
