package figures_test

import (
	"net/http"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
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
