// Package beanstalk serves the clients of beanstalkd: all commands of its protocol.
//
// The jobs of tube T with priority P are in the pull topic beanstalk.T.P, where T is escaped by registry.EscapeName and
// P has ten digits, with the settings of the namespace beanstalk.*. So a reserve follows priorities exactly: it asks
// the topics of all watched tubes in the order of their priorities. Within one priority jobs come in the order in which
// they became ready, per tube and shard.
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
// Ids count from 1 and do not contain a tube. The gateway takes blocks of ids from the registry, so ids have gaps with
// several hosts and after a restart. The topic of an id has to be searched for (gateway.Finder).
//
// # Connections
//
// One goroutine reads commands and another runs them, so the end of the connection is noticed while a reserve waits. A
// job is reserved by a connection. Only that connection can release, bury or touch the job, or delete it while it is
// reserved. When the connection ends, its jobs are released at once.
//
// # Differences
//
// Pauses of tubes, and the counters of the statistics, apply to one gateway only. TTRs are limited to 24 hours and
// delays to ten years. The counts of a job's timeouts, releases, buries and kicks cover its last 20 attempts. The
// priority given to bury is ignored; the priority given to release moves the job to the topic of that priority.
package beanstalk
