// Package printable makes untrusted texts safe to print.
//
// Ids, bodies, titles and answers of endpoints are printed in terminals and read in logs. Control characters could move
// a terminal's cursor, clear the screen or answer for its user; line separators could begin a forged line; and
// direction marks could show the letters in another order.
package printable
