package figures

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/history"
)

// Vitals summarize a topic's callbacks in the last quarter of an hour.
type Vitals struct {
	Attempts  int64
	Success   float64 // share of successful attempts; NaN: no attempts, or unknown
	Recovered bool    // most of the last attempts succeeded, although most of all failed
	Delivered string  // points of a small chart
	Failed    string
	Read      Stored // the values above
	calls     activity.Histogram
	at        time.Time
}

const (
	vitalsFresh = 10 * time.Second
	vitalsKept  = 5000
	sparkPoints = 30
	sparkHeight = 16
	sparkWidth  = 58
)

// Vitals returns the vitals of topics, read at most every ten seconds for each.
func (h *Handler) Vitals(ctx context.Context, topics []string) map[string]Vitals {
	h.vitalsMu.Lock()
	defer h.vitalsMu.Unlock()
	if h.vitals == nil || len(h.vitals) > vitalsKept {
		h.vitals = map[string]Vitals{}
	}
	list := make(map[string]Vitals, len(topics))
	var old []string
	for _, name := range topics {
		v, known := h.vitals[name]
		if list[name] = v; !known || h.Now().Sub(v.at) > vitalsFresh {
			old = append(old, name)
		}
	}
	if len(old) == 0 {
		return list
	}
	calls, err := h.Activity.Lateness(ctx, old, h.Now().Add(-Window))
	for _, name := range old {
		v := h.readVitals(ctx, name, list[name])
		if h.someAnswered(err) {
			v.calls = calls[name]
		}
		if list[name] = v; ctx.Err() == nil { // not canceled, so the reads were complete
			h.vitals[name] = v
		}
	}
	return list
}

// readVitals reads the vitals of a topic from the history. While the database is unavailable, these are those last
// read.
func (h *Handler) readVitals(ctx context.Context, topic string, last Vitals) Vitals {
	p, ok := h.readSeries(ctx, topic, history.Spans()[0])
	if !ok {
		if !last.Read.Known() {
			last.Success = math.NaN()
		}
		last.Read.Old, last.at = true, h.Now()
		return last
	}
	v := Vitals{Success: math.NaN(), Read: Stored{At: h.Now()}, calls: last.calls, at: h.Now()}
	v.Attempts = p.Sums["delivered"] + p.Sums["failed"]
	if v.Attempts > 0 {
		v.Success = float64(p.Sums["delivered"]) / float64(v.Attempts)
		v.Recovered = v.Success < 0.5 && h.recovered(ctx, topic)
	}
	v.Delivered, v.Failed = spark(p.Values["delivered"], p.Values["failed"])
	return v
}

// recovered reports whether most of a topic's last attempts succeeded. The history has them a minute later.
func (h *Handler) recovered(ctx context.Context, topic string) bool {
	attempts, _ := h.Activity.Attempts(ctx, topic, 10) // on error: those that could be read
	succeeded := 0
	for _, a := range attempts {
		if a.Outcome == "done" || a.Outcome == "snooze" {
			succeeded++
		}
	}
	return 2*succeeded > len(attempts)
}

// spark returns two lines for a small chart, with the same scale; both are empty if there were no values.
func spark(delivered, failed []*float64) (string, string) {
	good, bad := thinned(delivered), thinned(failed)
	highest := 0.0
	for _, v := range slices.Concat(good, bad) {
		highest = max(highest, v)
	}
	if highest == 0 {
		return "", ""
	}
	line := func(values []float64) string {
		var points []string
		sum := 0.0
		for i, v := range values {
			sum += v
			x, y := i*sparkWidth/max(1, len(values)-1), sparkHeight-int(math.Round(v/highest*(sparkHeight-1)))
			points = append(points, fmt.Sprintf("%d,%d", x, y))
		}
		if sum == 0 {
			return ""
		}
		return strings.Join(points, " ")
	}
	return line(good), line(bad)
}

// thinned sums up values that share a point.
func thinned(values []*float64) []float64 {
	points := make([]float64, min(len(values), sparkPoints))
	for i, v := range values {
		if v != nil {
			points[i*len(points)/len(values)] += *v
		}
	}
	return points
}
