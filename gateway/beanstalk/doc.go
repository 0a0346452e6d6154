// Package beanstalk serves beanstalkd clients. It implements every command of the protocol.
//
// The jobs of tube T are in the pull topic beanstalk.T, where T is escaped by registry.EscapeName, with the settings of
// the namespace beanstalk.*. A job's priority is its order (queue.Job), so a reserve takes the job with the lowest
// priority, and of equal ones that with the lowest id, over all watched tubes. One call does this for the tubes of a
// bucket: with several shards, on a Cluster, or with more than 250 watched tubes, the order is exact within each call.
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
// Ids count from 1, or continue behind imported ones, and do not contain a tube. The gateway takes blocks of ids from
// the registry, so ids have gaps with several hosts and after a restart. Since an id does not tell its topic, the
// gateway searches for it (gateway.Finder).
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
// The counts of a job's timeouts, releases, buries and kicks cover its last 20 attempts. The journal does not have the
// priority given to release and bury: a job that is recovered after Redis lost it has that of its put.
package beanstalk
