// Package callback makes one call of a topic's endpoint: what is sent, where it may go, and what the answer means.
//
// A call has one deadline, its TTR, over looking up, dialling, TLS, headers and body. It is repeated within that deadline only when the
// request certainly did not reach the endpoint; everything else is the queue's retry, with its own attempt.
//
// Short calls without TLS go over connections of this package's own (plain), all others through net/http's Transport.
package callback
