// Package app wires the roles: it opens what each of them works with, and makes them of it by hand. A role runs as a
// child of the master (ChildRoles) or alone in the foreground (RunAlone).
package app
