// Package bench measures a private installation of Wakecall beside the limits of the machine it runs on.
//
// Every figure that depends on the machine is shown beside what the same machine does without Wakecall in the same run:
// a bare echo handler under the same load generator, a bare http.Client posting to the same endpoint, redis-benchmark
// against the same Redis. The ratio is the result; absolute figures differ from machine to machine.
//
// # Processes
//
// All of them run on one machine, as in a small installation:
//
//	wakecall bench                 this process: the load generator and the bare http.Client
//	wakecall up (and its children) the installation under test, with its managed redis-server, in a temporary data_dir
//	wakecall bench-helper endpoint the endpoint that gets the callbacks (net/http)
//	wakecall bench-helper echo     the bare echo handler
//
// The load generator writes prepared requests over keep-alive connections and reads the answers with as little work as
// HTTP/1.1 allows, so that it takes little CPU time from what it measures. Both sides of a comparison use it.
//
// Every row starts with a fresh installation, so that no row is affected by an earlier one.
package bench
