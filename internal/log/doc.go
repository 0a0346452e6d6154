// Package log creates the log of a process: text or JSON lines on stderr. Warnings and errors also go to the journal.
package log
