// Package connlimit limits the connections of a server, so that half-open and idle clients cannot keep others out: at
// the limit, it closes the connections that have been without a request for longest.
package connlimit
