// Package beanstalk serves the clients of beanstalkd: all commands of its protocol.
//
// The jobs of tube T with the priority P are in the pull topic beanstalk.T.P, with T escaped by registry.EscapeName and
// P in ten digits, and the settings of the namespace beanstalk.*. So the order of a reserve is exact over priorities:
// it names the topics of all watched tubes by their priority. Within one priority jobs come in the order in which they
// became ready, in each tube and shard.
//
//	beanstalkd   Wakecall
//	reserved     running
//	buried       dead
//	release      a failed attempt, made again after the delay; so attempts count reserves
//	bury         dead at once
//	kick         ready again
//	touch        the lease is extended
//
// # Ids
//
// Ids count from 1 and name no tube. The gateway takes blocks of them from the registry, so with several hosts, and
// after a restart, some are left out. The topic of an id is searched for (gateway.Finder).
//
// # Connections
//
// One goroutine reads commands, one runs them: while a reserve waits, the end of the connection is seen. A job is
// reserved by its connection, which alone can release, bury, touch or, while it is reserved, delete it. When the
// connection ends its jobs are released at once.
//
// # Differences
//
// A pause of a tube, and the counters of the statistics, are those of one gateway. TTRs are at most 24 hours and delays
// ten years; longer ones become that. The counts of a job's timeouts, releases, buries and kicks are those of its last
// 20 attempts. A priority that is given to bury is not kept; one that is given to release is: the job moves to the
// topic of that priority.
package beanstalk
