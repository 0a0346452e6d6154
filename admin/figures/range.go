package figures

import (
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/observe/history"
)

// Range is the time that the charts of a page show: a span up to now, or between two times. It is part of the page's
// address, so a link shows the same range.
type Range struct {
	Span     string
	From, To time.Time // zero: the span up to now
	Zone     *time.Location
}

const shortestRange = time.Minute

// RangeOf returns the range in the address of a page, or the span if the range is invalid or before the first data.
func RangeOf(c echo.Context, now time.Time) Range {
	r := Range{Span: SpanOf(c), Zone: page.Zone(c)}
	from, to := timeIn(c.QueryParam("from"), r.Zone), timeIn(c.QueryParam("to"), r.Zone)
	if from.IsZero() || !from.Before(now) || !to.After(from) || !to.After(history.Oldest(now)) {
		return r
	}
	return r.between(from, to, now)
}

// timeIn parses a time, or the time of a form in the zone of the page. It returns the zero time if that is invalid.
func timeIn(text string, zone *time.Location) time.Time {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at
	}
	at, _ := page.Minute(text, zone)
	return at
}

// between returns the range from one time to another, as far as there are data.
func (r Range) between(from, to, now time.Time) Range {
	if short := shortestRange - to.Sub(from); short > 0 {
		from, to = from.Add(-short/2), to.Add(short/2)
	}
	if oldest := history.Oldest(now); from.Before(oldest) {
		from = oldest
	}
	if to.After(now) {
		to = now
	}
	r.From, r.To = from.Truncate(time.Second), to.Truncate(time.Second)
	return r
}

// Fixed reports whether the range does not move with the time.
func (r Range) Fixed() bool { return !r.From.IsZero() }

// Spans are the spans that a page offers.
func (r Range) Spans() []string { return history.Spans() }

// Query returns the range as part of an address.
func (r Range) Query() string {
	q := url.Values{"span": {r.Span}}
	if r.Fixed() {
		q.Set("from", r.Start())
		q.Set("to", r.End())
	}
	return q.Encode()
}

// Start and End return the bounds of a fixed range for an address.
func (r Range) Start() string { return r.From.UTC().Format(time.RFC3339) }

func (r Range) End() string { return r.To.UTC().Format(time.RFC3339) }

// FromField and ToField return the bounds of a fixed range for the fields of a form.
func (r Range) FromField() string { return r.field(r.From) }

func (r Range) ToField() string { return r.field(r.To) }

func (r Range) field(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.In(r.Zone).Format(page.MinuteForm + ":05")
}

// Earlier and Later return the range moved by half of its length, and Wider the range with twice its length.
func (r Range) Earlier() Range { return r.moved(-r.To.Sub(r.From)/2, -r.To.Sub(r.From)/2) }

func (r Range) Later() Range { return r.moved(r.To.Sub(r.From)/2, r.To.Sub(r.From)/2) }

func (r Range) Wider() Range { return r.moved(-r.To.Sub(r.From)/2, r.To.Sub(r.From)/2) }

func (r Range) moved(from, to time.Duration) Range {
	r.From, r.To = r.From.Add(from).Truncate(time.Second), r.To.Add(to).Truncate(time.Second)
	return r
}

// bounds returns the first and the last time of the range.
func (r Range) bounds(now time.Time) (from, to time.Time) {
	if r.Fixed() {
		return r.From, r.To
	}
	return now.Add(-history.Length(r.Span)), now
}
