// Package journal writes and reads the record of what Wakecall accepted and did, as JSON lines:
//
//	request-YYYYMMDD.jsonl   every accepted push, change and delete, with the body     RequestLine
//	notify-YYYYMMDD.jsonl    every attempt and its outcome                             AttemptLine
//	error-YYYYMMDD.jsonl     what went wrong                                           ErrorLine
//
// The day is the UTC day of the writing. Several processes append to one file: each call is one write(2) on a
// descriptor opened with O_APPEND, so lines of different processes do not mix. A call returns when the kernel has the
// lines: they survive the death of every process, not a power cut.
//
// # Lines
//
// Each line is one JSON object that begins with {"ts":" and has no object inside. Text that is not UTF-8 stands in
// base64 under its name with _b64 added. A quote inside a string is escaped, so the raw bytes {"ts":" occur at the
// beginning of a line and nowhere else: when a write was cut short (a full disk, kill -9 in the middle) and another
// process has appended its line to the torn one, the reader still finds where the good line begins. The writer also
// begins its next write with a newline after it was cut short, and when it opens a file that ends without one.
//
// # Failure
//
// A write that fails returns its error, and the journal is unhealthy until one succeeds: Healthy has the error, and
// Probe tries, once a second at most, whether there is room again. Nothing has to be restarted. Each stream fails by itself:
// what is accepted depends on the request stream alone (Accepting), and an attempt or an error that cannot be noted
// stops nothing.
//
//	         write fails                  write or Probe succeeds
//	healthy ─────────────▶ unhealthy ───────────────────────────▶ healthy
//
// # Housekeeping
//
// Housekeep compresses the files of past days and removes those older than Options.Keep. Any number of processes may
// run it; DIR/.lock lets one work at a time. Each writer holds a shared flock on the file that it has open, so that a
// file is compressed only when nobody can write to it any more. A process that is idle would hold yesterday's file
// until its next write, so every process with a Journal should run RunHousekeeping.
package journal
