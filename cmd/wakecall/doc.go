// Command wakecall is all of Wakecall in one binary: the master, the roles it starts, and the tools of its users.
//
// The files here parse and print; the work is done by the packages they call. Signals become a context in main and nowhere else.
// Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.
package main
