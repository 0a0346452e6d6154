package admintest

import (
	"context"

	"github.com/wakecall/wakecall/internal/alert/history"
)

// FixedHistory answers every series with the same numbers.
type FixedHistory struct{}

func (FixedHistory) Series(_ context.Context, series, span string) (history.Points, error) {
	two, ten := 2.0, 10.0
	return history.Points{
		Series: series, Span: span, Step: 10, Times: []int64{10, 20}, Sums: map[string]int64{"pushed": 120},
		Values: map[string][]*float64{"pushed": {nil, &two}, "p50": {nil, &ten}},
	}, nil
}
