// Package journal writes and reads the record of accepted requests and attempts, as JSON lines:
//
//	request-YYYYMMDD.jsonl   every accepted push, change and delete, with the body     RequestLine
//	notify-YYYYMMDD.jsonl    every attempt and its outcome                             AttemptLine
//	error-YYYYMMDD.jsonl     what went wrong                                           ErrorLine
//
// The day is the UTC day of the write. Several processes append to one file: each call is one write(2) on a descriptor
// opened with O_APPEND, so lines of different processes do not mix. A call returns when the kernel has the lines: they
// survive the death of every process, but not a power cut. With Options.Sync, and with Durably, they survive that, too.
//
// # Lines
//
// Each line is one JSON object that begins with {"ts":" and contains no object. Its last member, crc, is the CRC-32C of
// all bytes before it: a line of which a bit was changed on the disk is torn, and not replayed as another job. It costs
// 19 bytes a line and 1% of the time of a write; checking it is seven times as fast as checking that a line is JSON,
// which it makes unnecessary. A body that is not UTF-8 is in base64,
// as body_b64; in other texts U+FFFD replaces bytes that are not UTF-8. Quotes inside strings are escaped, so the bytes
// {"ts":" occur only at the beginning of a line. When a write was cut short (a full disk, kill -9) and another process
// appended its line to the torn one, the reader still finds where the good line begins. After a write was cut short,
// and when a file that it opens ends without a newline, the writer begins its next write with one.
//
// # Failure
//
// When a write fails it returns the error, and the journal is unhealthy until a write succeeds: Healthy returns the
// error, and Probe checks, once a second at most, whether there is room again. No restart is needed. Streams fail
// independently: only the request stream decides whether requests are accepted (Accepting); an attempt or an error that
// cannot be written does not stop any work. Attempts are kept in memory, up to 4 MiB, and written when there is room
// again.
//
//	         write fails                  write or Probe succeeds
//	healthy ─────────────▶ unhealthy ───────────────────────────▶ healthy
//
// # Format
//
// DIR/.format has the number of the format of the lines and of the files beside them. Open creates it, and refuses a
// directory in which it is missing or has another number.
//
// # Housekeeping
//
// Housekeep compresses the files of past days and removes those older than Options.Keep. Any number of processes may
// call it; DIR/.lock lets one work at a time. Each writer holds a shared flock on its open file, so a file is
// compressed only when no process writes to it. An idle process would keep yesterday's file open until its next write,
// so every process with a Journal should call RunHousekeeping.
//
// # Reading order
//
//	line.go, encode.go     what a line has, and its bytes; decode.go reads them
//	journal.go, stream.go  a write; sync.go waits until it is on disk, health.go says whether writes succeed
//	files.go               the names and the list of the files
//	position.go, read.go   how far a journal is written; its lines since then
//	lock.go                work that only one process at a time may do
//	housekeep.go           compresses and removes files of past days
package journal
