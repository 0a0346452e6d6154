// Package bulk performs one action on many jobs: it retries, deletes, runs or reschedules all that match a filter.
//
// A task works in two steps. First it lists the matching jobs in a file. Then it acts on the listed jobs, a chunk at a
// time, and stores its progress after each chunk. So a job that changes its state meanwhile is neither missed nor acted
// on twice, and a task whose process restarts resumes where it stopped. A task may have a rate. A re-drive may have
// stages: 10 jobs, 10 %, all. The task waits for the outcomes of each stage before it begins the next, and stops if the
// share of failures exceeds a given limit.
//
// A Runner runs the tasks of one host. Apply acts on given jobs immediately, without a task.
package bulk
