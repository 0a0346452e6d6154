// Package beanstalk serves beanstalkd clients. It implements every command of the protocol.
//
// The jobs of tube T with priority P are in the pull topic beanstalk.T.P, where T is escaped by registry.EscapeName and
// P has ten digits, with the settings of the namespace beanstalk.*. So a reserve follows priorities exactly: it queries
// the topics of all watched tubes in the order of their priorities. Within a priority, the jobs of each tube and shard
// come in the order in which they became ready.
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
// several hosts and after a restart. Since an id does not tell its topic, the gateway searches for it (gateway.Finder).
//
// # Connections
//
// One goroutine reads commands and another runs them, so the end of the connection is noticed while a reserve waits.
// Only the connection that reserved a job can release, bury or touch it, or delete it while it is reserved. When the
// connection ends, its jobs are released at once.
//
// # Differences
//
// Each gateway pauses tubes and counts statistics independently. TTRs are limited to 24 hours and delays to ten years.
// The counts of a job's timeouts, releases, buries and kicks cover its last 20 attempts. The priority given to bury is
// ignored; the priority given to release moves the job to the topic of that priority.
package beanstalk
