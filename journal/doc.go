// Package journal writes and reads the record of what Wakecall accepted and did, as JSON lines:
//
//	request-YYYYMMDD.jsonl   every accepted push, change and delete, with the body     RequestLine
//	notify-YYYYMMDD.jsonl    every attempt and its outcome                             AttemptLine
//	error-YYYYMMDD.jsonl     what went wrong                                           ErrorLine
//
// The day is the UTC day of the write. Several processes append to one file: each call is one write(2) on a descriptor
// opened with O_APPEND, so lines of different processes do not mix. A call returns when the kernel has the lines: they
// survive the death of every process, but not a power cut. With Options.Sync, and by Durably, they survive that, too.
//
// # Lines
//
// Each line is one JSON object that begins with {"ts":" and has no object inside. Text that is not UTF-8 is in base64,
// under its name with _b64 added. Quotes inside strings are escaped, so the bytes {"ts":" occur at the beginning of a
// line and nowhere else. When a write was cut short (a full disk, kill -9) and another process appended its line to the
// torn one, the reader still finds where the good line begins. The writer begins its next write with a newline after it
// was cut short, and when it opens a file that ends without one.
//
// # Failure
//
// A write that fails returns its error, and the journal is unhealthy until one succeeds: Healthy returns the error, and
// Probe checks, once a second at most, whether there is room again. No restart is needed. Streams fail one by one: only
// the request stream decides whether requests are accepted (Accepting), and an attempt or an error that cannot be
// written stops nothing. Attempts are kept in memory, up to 4 MiB, and written when there is room again.
//
//	         write fails                  write or Probe succeeds
//	healthy ─────────────▶ unhealthy ───────────────────────────▶ healthy
//
// # Housekeeping
//
// Housekeep compresses the files of past days and removes those older than Options.Keep. Any number of processes may
// call it; DIR/.lock lets one work at a time. Each writer holds a shared flock on its open file, so that a file is
// compressed only when no process writes to it. An idle process would keep yesterday's file open until its next write,
// so every process with a Journal should call RunHousekeeping.
package journal
