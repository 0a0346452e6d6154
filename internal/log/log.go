package log

import (
	"io"
	"log/slog"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/log/printable"
)

// New returns the process's log, configured by log.level and log.format.
func New(cfg *conf.Config, w io.Writer, process string) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.Log.Level}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if cfg.Log.Format == "json" {
		h = slog.NewJSONHandler(printable.JSON{W: w}, opts)
	}
	log := slog.New(h).With("process", process)
	if o, ok := w.(*Output); ok {
		o.setReport(log)
	}
	return log
}

// Journaled returns a log that also writes its warnings and errors to the journal.
func Journaled(log *slog.Logger, j *journal.Journal) *slog.Logger {
	return slog.New(&errorLog{Handler: log.Handler(), journal: j})
}
