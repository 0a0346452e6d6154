// Package app wires the roles by hand: it opens what each role needs and builds the role. A role runs as a child of the
// master (ChildRoles) or alone in the foreground (RunAlone).
package app
