// Package bench measures private installations of Wakecall beside the limits of the machine on which they run.
//
//	make bench                                 every experiment, medians of three runs: hours
//	make bench ARGS="-quick -only push,batch"  two of them, for seconds each, and less precisely
//
// A figure that depends on the machine stands beside what the same machine does without Wakecall in the same run: a
// bare net/http server under the same load, a bare http.Client that posts to the same endpoint, redis-benchmark or a
// plain script on the same Redis. The ratio is the result; absolute figures differ from machine to machine.
// LMSTFY_BINARY names an lmstfy-server to measure beside Wakecall's gateway; beanstalkd is measured if it is installed.
//
// WAKECALL_TEST_BINARY names the wakecall to measure, so the same benchmark can measure two commits in turn.
//
// The endpoint of callbacks, which also is the bare server, is a process of its own: this test binary, started again.
// Load is made in this process, over connections that cost little processor time (harness.Conn). Each run of an
// experiment starts with a fresh installation, with its managed redis-server.
package bench
