// Package callback makes one call of a topic's endpoint: what is sent, where it may go, and what the answer means.
//
// A call has one deadline, its TTR, over DNS, dialling, TLS, headers and body. Within it the request is sent a
// second time only when it did not reach the endpoint (see wire.Exchange.Again). Everything else is a failed
// attempt, which the queue retries.
//
// Package wire carries the request, policy.go says which addresses may be dialled, retryif.go judges answers.
package callback
