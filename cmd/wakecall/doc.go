// Command wakecall is all of Wakecall in one binary: the master, the roles it starts, and the command-line tools.
//
// The files here parse and print; the packages that they call do the work. Signals become a context here and nowhere
// else. Exit codes: 0 success, 1 failure, 2 invalid command line or configuration.
//
//go:generate go test -count=1 -run TestTheCommandReferenceIsGenerated . -write
package main
