// Package forecast says when the waiting jobs of a topic will have been called, or why nobody can know. Of decides,
// from a Situation that a Reader reads. The admin's pages, the API, the metrics and the alerts all use its answer.
//
// The answer follows from deliveries, which are successful calls only, and from arrivals:
//
//   - The deliveries of the last whole minute are what can be done, at most the topic's limits, if jobs waited and all
//     shards answered for the whole of it and nothing has changed since. Otherwise only a limit says that, times the
//     share of calls that succeed. Without either it is unknown: a topic that is called once an hour could be called a
//     thousand times a second.
//   - Jobs that fall due later are counted. Those that are still to be pushed are assumed to arrive as in the last 40
//     seconds. A batch that was pushed at once does not continue.
//   - The answer is a range. At least: the whole rate is used, and the jobs that arrive in a minute are those that are
//     stored for it already, or more. At most: steadyShare of it, and they come on top. If the bounds are so far apart
//     that either may be wrong by half, the answer is unknown.
//
// Limits: pushes with a delay of more than 20 seconds are assumed to end with those that are stored.
package forecast
