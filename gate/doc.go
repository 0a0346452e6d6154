// Package gate keeps half-open and idle clients from keeping others out: it bounds the connections of a server, and when all places are taken those
// give way that have been without a request for longest.
package gate
