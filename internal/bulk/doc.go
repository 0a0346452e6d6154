// Package bulk performs one action on many jobs: it retries, deletes, runs or reschedules all that match a filter.
//
// A task works in two steps. First it lists the matching jobs in a file. Then it acts on the listed jobs, a chunk at a
// time, and stores its progress after each chunk. So a job that changes its state meanwhile is neither missed nor acted
// on twice, and a task resumes where it was when its process restarts. Options of a task are a rate, and stages: a
// small part first, then a larger one, each judged by the outcomes of its jobs before the next begins.
//
// A Runner carries out the tasks of one host. Apply acts at once on named jobs, without a task.
package bulk
