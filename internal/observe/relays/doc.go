// Package relays keeps the last report of each relay in the registry's database: what `wakecall relay` says about its
// outbox table every few seconds, for the API and for alerts. Relays of one table report under one name, and the last
// report counts. Reports are about a table whose rows are not in Redis, so they are worth no more than a row each.
//
//wakecall:figures
package relays
