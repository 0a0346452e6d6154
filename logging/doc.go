// Package logging makes the log of a process: text or JSON lines on stderr, and its warnings and errors in the journal, too.
package logging
