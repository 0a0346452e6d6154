package figures_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/observe/history"
)

func TestCharts(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) { o.History = admintest.FixedHistory{} }).As("look")
	s.Shows("/charts/rates?span=3h", `"at":[10,20]`, `{"label":"Pushed","color":"blue","values":[null,2]}`,
		`"values":[null,null]`)
	s.Shows("/charts/lateness", `"unit":"ms"`)
	if status, _ := s.Get("/charts/nothing"); status != http.StatusNotFound {
		t.Errorf("a chart that does not exist got %d", status)
	}
}

// outage is a history during which no shard answered for a while.
type outage struct{ admintest.FixedHistory }

func (outage) Series(_ context.Context, series, span string) (history.Points, error) {
	zero := 0.0
	p := history.Points{Series: series, Span: span, Times: []int64{10, 20, 30},
		Values: map[string][]*float64{"pushed": {&zero, &zero, &zero}}}
	if series == history.AllTopics {
		p.Values["pushed"][1] = nil
	}
	return p, nil
}

// TestUnknownIsAGapInTheChartOfATopic.
func TestUnknownIsAGapInTheChartOfATopic(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) { o.History = outage{} }).As("look")
	s.Shows("/charts/rates?series=shop.close", `"values":[0,null,0]`)
}
