// Package wire carries one HTTP request at a time to an endpoint and its answer back.
//
// Connections belong to topics. Topics whose endpoints share a host share no connection, so what one endpoint
// sends unasked is never read as the answer to another topic's job.
//
// Requests without TLS, up to directLimit bytes, are written and read by the calling goroutine (direct.go);
// net/http makes their bytes (Request.Write) and reads the answers (ReadResponse). All others go through
// net/http's Transport, which also speaks HTTP/2 and reads an answer while it writes. The Transport hands each
// request to two goroutines of its connection and the answer back, and costs a third of all callbacks a second.
// Tests compare the two byte by byte and answer by answer.
package wire
