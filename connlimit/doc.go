// Package connlimit bounds the connections of a server, so that half-open and idle clients cannot keep others out: when
// all places are taken, the connections that have been without a request for longest are closed.
package connlimit
