// Package openapitest checks real requests and answers against the API's description, so that it stays true. It is for
// tests only.
//
//	client := &http.Client{Transport: openapitest.Transport(t, http.DefaultTransport)}
//
// checks every exchange of that client.
package openapitest
