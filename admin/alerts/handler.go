// Package alerts is the pages about alerts: those that are open or ended, what was sent about them, and where and when
// it is sent.
package alerts

import (
	"github.com/wakecall/wakecall/admin/page"
)

// Handler serves the pages of this room.
type Handler struct{ *page.Base }

// New makes a Handler.
func New(b *page.Base) *Handler { return &Handler{b} }
