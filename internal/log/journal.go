package log

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/wakecall/wakecall/internal/journal"
)

// errorLog also writes warnings and errors to the journal.
type errorLog struct {
	slog.Handler
	journal *journal.Journal
	attrs   []slog.Attr
}

// Handle implements slog.Handler.
func (h *errorLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		_ = h.journal.Error(h.line(r)) // the journal logs its own errors
	}
	return h.Handler.Handle(ctx, r)
}

// line returns the record's error apart from the rest.
func (h *errorLog) line(r slog.Record) journal.ErrorLine {
	line := journal.ErrorLine{TS: r.Time, Where: r.Message}
	var rest []string
	take := func(a slog.Attr) bool {
		switch a.Key {
		case "error":
			line.Error = a.Value.String()
		case "process": // the journal adds it
		default:
			rest = append(rest, a.Key+"="+asWord(a.Value.String()))
		}
		return true
	}
	for _, a := range h.attrs {
		take(a)
	}
	r.Attrs(take)
	line.Context = strings.Join(rest, " ")
	return line
}

// asWord quotes a value that could be misread as several values: an id may look like "x error=…".
func asWord(s string) string {
	splits := func(r rune) bool { return r == '"' || r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if s == "" || strings.ContainsFunc(s, splits) {
		return strconv.Quote(s)
	}
	return s
}

// WithAttrs implements slog.Handler.
func (h *errorLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &errorLog{h.Handler.WithAttrs(attrs), h.journal, append(slices.Clip(h.attrs), attrs...)}
}

// WithGroup implements slog.Handler.
func (h *errorLog) WithGroup(name string) slog.Handler {
	return &errorLog{h.Handler.WithGroup(name), h.journal, h.attrs}
}
