// Package printable makes texts of strangers fit to print.
//
// Ids, bodies, titles and answers of endpoints are printed in terminals and read in logs. Control characters would
// move a terminal's cursor, clear the screen or answer for its user; line separators would begin a line that nobody
// wrote; and direction marks would show the letters in another order.
package printable
