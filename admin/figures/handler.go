// Package figures is what several pages of the admin compute and draw: charts of the history, the counts of all topics,
// and the capacity against which a forecast goes.
package figures

import (
	"sync"

	"github.com/wakecall/wakecall/admin/page"
)

// Handler computes figures, and serves charts.
type Handler struct {
	*page.Base
	readings readings

	vitalsMu sync.Mutex
	vitals   map[string]Vitals // by topic
}

// New makes a Handler.
func New(b *page.Base) *Handler { return &Handler{Base: b} }
