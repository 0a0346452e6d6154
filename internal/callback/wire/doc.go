// Package wire sends one HTTP request at a time to an endpoint and receives its answer.
//
// Connections belong to pools, one for each key that the caller chooses: unrequested data from an endpoint is never
// read as the answer to a request of another pool. With many thousand topics, a pool for each topic would open a
// connection for nearly each call.
//
// Requests without TLS, up to directLimit bytes, are written and read by the calling goroutine (direct.go);
// net/http makes their bytes (Request.Write) and reads the answers (ReadResponse). All others go through
// net/http's Transport, which also speaks HTTP/2 and reads an answer while it writes. The Transport hands each
// request to two goroutines of its connection and the answer back, and costs a third of all callbacks a second.
// Tests compare the two byte by byte and answer by answer.
package wire
