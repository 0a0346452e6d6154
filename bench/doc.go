// Package bench measures a private installation of Wakecall beside the limits of the machine it runs on.
//
// Every figure of Wakecall that depends on the machine is shown beside what the same machine does without Wakecall in
// the same run: a bare echo handler under the same load generator, a bare http.Client posting to the same endpoint,
// redis-benchmark against the same Redis. The ratio is the result; absolute figures differ from machine to machine.
//
// # Who runs where
//
// All on one machine, as a small installation has it, each in a process of its own:
//
//	wakecall bench                 this process: the load generator and the bare http.Client
//	wakecall up (and its children) the installation under test, with its managed redis-server, in a temporary data_dir
//	wakecall bench-helper endpoint the endpoint that gets the callbacks (net/http)
//	wakecall bench-helper echo     the bare echo handler
//
// The load generator writes prepared requests over keep-alive connections and reads the answers with as little work as
// HTTP/1.1 allows, so that it takes as little as possible from what it measures. It is the same for both sides of a
// comparison.
//
// Every row starts with a fresh installation, so that no row pays for what another one left behind.
package bench
