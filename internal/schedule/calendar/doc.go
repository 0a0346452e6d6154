// Package calendar computes when a schedule's occurrences are: by a cron expression in a time zone, or every so many
// seconds. It does no I/O and reads no clock, so what fires and what pages show is the same.
//
//	rule.go    Rule: the next occurrence, the newest one, their number
//	parse.go   reads the five fields of a cron expression, and says what is wrong with them
//	fields.go  local times that match a cron expression
//	clock.go   real time as local time: gaps and repeated hours
//	zone.go    the time zones that are in the binary
//
// # Cron expressions
//
// A day must match both day fields. If both are restricted (neither begins with "*"), either is enough, as in Vixie
// cron.
//
// The search goes by fields, not by minutes: a month that does not match costs one step. It ends after 41 years. No two
// occurrences are further apart than 40: those of 29 February on a Sunday, across a century that is no leap year. Parse
// refuses what never matches.
//
// # When clocks change
//
// A rule in which neither minute nor hour begins with "*" means wall-clock times (Rule.WallClock). Each occurs once: in
// a repeated hour, the first time; in a gap, at the first instant after it. So several in one gap become one. A gap may
// be a whole day. Every other rule means real time: each real minute whose local time matches.
//
// Both follow from one number: the end of the local times that clocks have shown before an instant. A local time before
// it is a repetition. One between it and the local time of the instant is in a gap. So changes by 30 minutes, two hours
// or a day, and summer time that is behind winter time, need no code of their own.
//
// # Zone data
//
// All hosts must agree on an occurrence, so its zone is that of the binary. time.LoadLocation prefers the system's
// files, also with time/tzdata, and does not say of which release they are. `go generate` copies the zones of the Go
// toolchain.
package calendar

//go:generate sh -c "cp $(go env GOROOT)/lib/time/zoneinfo.zip zones/"
//go:generate sh -c "sed -n s/^DATA=//p $(go env GOROOT)/lib/time/update.bash > zones/release"
