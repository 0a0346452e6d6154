// Package bulk performs one action on many jobs: it retries, deletes, runs or reschedules all that match a filter.
//
// A task works in two steps. First it lists the matching jobs in a file. Then it acts on the listed jobs, a chunk at a
// time, and stores its progress after each chunk. So a job that changes its state meanwhile is neither missed nor acted
// on twice, and a task resumes where it was when its process restarts. A task may have a rate. A re-drive may have
// stages: 10 jobs, 10 %, all. The outcomes of each stage are awaited before the next begins, and when more than a given
// share of them are failures, the task stops.
//
// A Runner carries out the tasks of one host. Apply acts at once on named jobs, without a task.
package bulk
