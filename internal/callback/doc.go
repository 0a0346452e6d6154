// Package callback calls topics' endpoints: it builds the request, checks its destination, and interprets the response.
//
// A call has one deadline, its TTR, for DNS, dialling, TLS, headers and body. Within the TTR, the request is sent a
// second time only if it did not reach the endpoint (see wire.Exchange.MayRepeat). Any other error is a failed attempt,
// which the queue retries.
//
//	endpoint.go   where and how a topic is called; dialect.go the forms of other systems
//	caller.go     one call; request.go what it sends, form.go a body as a query or form, sign.go its signatures
//	policy.go     which addresses may be dialled; addresses.go the ranges of special addresses
//	outcome.go    what a response means; retryif.go evaluates retry_if on it; failure.go why there is no response
//
// Package wire sends the request.
package callback
