// Package printable makes untrusted text safe to print.
//
// Ids, bodies, titles and responses of endpoints are printed in terminals and logs. Control characters could move a
// terminal's cursor, clear the screen or type on behalf of the user. Line separators could begin a forged line.
// Direction marks could display the letters in another order. Command lines are pasted into a shell.
package printable
