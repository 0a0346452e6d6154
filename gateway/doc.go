// Package gateway is the role that speaks the protocols of other systems, so that their clients work unchanged.
//
// Each old system has a package below this one, with all that is known about it: its wire format, the form of its
// callbacks (a callback.Dialect), and the import of its data (an importer.Source). A variable Protocol describes it to
// package app, which lists all protocols. To take one out, delete its package and its line there.
//
// This package contains what they share: listeners that stop gracefully, waits for jobs, the search for an id,
// accounts, namespaces, metrics, and the protocol's name for the journal. Package importer is the engine of imports.
package gateway
