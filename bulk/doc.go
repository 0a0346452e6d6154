// Package bulk does one thing with many jobs: it retries, deletes, runs or moves all that match a filter.
//
// A task works in two steps. First it lists which jobs match, in a file. Then it acts on the listed jobs, a chunk at a
// time, and stores after each chunk how far it is. So a job that moves while others are acted on is neither forgotten
// nor met twice, and a task goes on where it was when its process restarts. Options of a task are a rate, and stages: a
// small part first, then a larger one, each judged by what became of its jobs before the next begins.
//
// A Runner carries out the tasks of one host. Apply acts at once on jobs that are named, without a task.
package bulk
