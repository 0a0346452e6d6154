// Package figures computes and draws what several pages of the admin show: charts of the history, the counts of all
// topics, and the capacity with which a forecast is compared.
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

// New returns a Handler.
func New(b *page.Base) *Handler { return &Handler{Base: b} }
