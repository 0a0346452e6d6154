// Package gateway implements the role that speaks the protocols of other systems, so that their clients work unchanged.
//
// Each old system has a package below this one. It contains everything about that system: its wire format, the form of
// its callbacks (a callback.Dialect), and the import of its data (an importer.Source). Its variable Protocol is listed
// in package app. To remove a system, delete its package and its line in that list.
//
// This package contains what they share: listeners that stop gracefully, waiting for jobs, searching for an id,
// accounts, namespaces, metrics, and the protocol's name for the journal. Package importer is the engine of imports.
package gateway
