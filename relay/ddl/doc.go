// Package ddl has the table that `wakecall relay` reads, for each database.
package ddl
