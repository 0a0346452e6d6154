// Package chaos breaks an installation for real, under load, and counts.
//
// Two hosts (two masters with data directories and journals of their own) share a MariaDB and two Redis servers. Clients push, change and delete
// jobs, and write down every answer; endpoints write down every call. Faults strike by a schedule that a seed determines, alone and in pairs.
// At the end everything is healed, the queues drain, and the verdict is by counting:
//
//   - every job whose push was answered 2xx was called and said yes to, or is dead and visible, or was deleted by its owner;
//   - nothing was called before its due time;
//   - no call began after its deletion was answered 204;
//   - nothing was called that nobody pushed;
//   - the queues are empty, and new jobs go through.
//
// How many calls came twice is told, and not judged: at least once is the promise.
//
//	make chaos                     30 minutes with a fresh seed
//	make chaos SECONDS=300 SEED=7  five minutes with that one
//	make chaos ONLY=redis          only faults whose name has that in it
//
// A failure leaves its record, and prints where it is and the seed.
package chaos
