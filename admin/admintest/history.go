package admintest

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/observe/history"
)

// FixedHistory answers every series with the same numbers.
type FixedHistory struct{}

// Range has one value at the end of the range.
func (FixedHistory) Range(_ context.Context, series string, from, to time.Time) (history.Points, error) {
	seven := 7.0
	return history.Points{
		Series: series, Step: 10, Times: []int64{from.Unix(), to.Unix()},
		Values: map[string][]*float64{"pushed": {nil, &seven}},
	}, nil
}

// All has nothing.
func (FixedHistory) All(context.Context, string) ([]history.Points, error) { return nil, nil }

func (FixedHistory) Series(_ context.Context, series, span string) (history.Points, error) {
	two, ten := 2.0, 10.0
	return history.Points{
		Series: series, Span: span, Step: 10, Times: []int64{10, 20}, Sums: map[string]int64{"pushed": 120},
		Values: map[string][]*float64{"pushed": {nil, &two}, "p50": {nil, &ten}},
	}, nil
}
