// Package chaos breaks a private installation for real, and judges by counting.
//
// Two hosts (two `wakecall up` with a data directory each) share the redis-servers of two shards, or of a Cluster of
// three masters, which stand behind proxies, and a MariaDB or a PostgreSQL. A load pushes, changes and deletes jobs and
// records every answer: acknowledged, refused or unknown. The endpoint records every call. Workers take jobs of pull
// topics, end their leases in every way or disconnect while they hold them, and record that. Meanwhile faults are
// injected, alone and together, by a schedule derived from a seed.
//
// Two verdicts are computed from this record (one JSON line an event) alone: see ledger.Judge and ledger.CheckHistories.
// The record is kept when one is bad; the same seed repeats the same faults in the same order.
//
//	make chaos                        30 minutes with a fresh seed
//	make chaos SECONDS=300 SEED=42    five minutes of that seed
//	make chaos ONLY=redis             only the faults with that word in their names
//	make chaos CHAOS_DEPLOYMENT=cluster  on a Cluster, not on two shards; standalone: on one server
//	make chaos CHAOS_DATABASE=postgres   on PostgreSQL, not on the database that the seed decides; or mariadb
//	make chaos MIXED=replace          of the further operations only these
//	make chaos RATE=200 JOBS=10000    200 requests a second, while 10,000 jobs wait
//
// The load also replaces jobs, re-drives and deletes dead ones several at once, and drops a topic with its jobs,
// through both hosts, and a schedule has an occurrence each second; MIXED names which of replace, redrive, delete, drop,
// group and schedule.
package chaos
