package logging

import (
	"io"
	"log/slog"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/printable"
)

// New is the process's log, as log.level and log.format say.
func New(cfg *conf.Config, w io.Writer, process string) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.LogLevel()}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if cfg.Log.Format == "json" {
		h = slog.NewJSONHandler(printable.JSON{W: w}, opts)
	}
	return slog.New(h).With("process", process)
}

// Journaled is a log whose warnings and errors go to the journal, too.
func Journaled(log *slog.Logger, j *journal.Journal) *slog.Logger {
	return slog.New(&errorLog{Handler: log.Handler(), journal: j})
}
