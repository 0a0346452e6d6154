// Package alerts serves the pages about alerts: open and ended ones, the messages about them, and the settings for
// where and when to send messages.
package alerts

import (
	"github.com/wakecall/wakecall/admin/page"
)

// Handler serves the pages of this package.
type Handler struct{ *page.Base }

// New returns a Handler.
func New(b *page.Base) *Handler { return &Handler{b} }
