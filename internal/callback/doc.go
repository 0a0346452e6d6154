// Package callback calls topics' endpoints: it builds the request, checks its destination, and interprets the response.
//
// A call has one deadline, its TTR, for DNS, dialling, TLS, headers and body. Within the TTR, the request is sent a
// second time only if it did not reach the endpoint (see wire.Exchange.Again). Any other error is a failed attempt,
// which the queue retries.
//
// Package wire sends the request, policy.go decides which addresses may be dialled, and retryif.go evaluates retry_if
// on responses.
package callback
