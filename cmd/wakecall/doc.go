// Command wakecall is all of Wakecall in one binary: the master, the roles it starts, and the tools of its users.
//
// The files here parse and print; the packages that they call do the work. Signals become a context here and nowhere
// else. Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.
package main
