// Package forecast says when the waiting jobs of a topic will have been called, or why nobody can know. Of decides,
// from a Situation that a Reader reads. The admin's pages, the API, the metrics and the alerts all use its answer.
//
// The answer follows from deliveries, which are successful calls only, and from arrivals:
//
//   - While jobs wait, the deliveries of the last whole minute are what can be done. While none do, only a limit of the
//     topic says that, times the share of calls that succeed. Without either it is unknown: a topic that is called once
//     an hour could be called a thousand times a second.
//   - Jobs that fall due later are counted. Those that are still to be pushed are assumed to arrive as the waiting ones
//     did: if the oldest has waited for a minute, the others fell due within that minute. A batch that was pushed at
//     once does not continue.
//
// Limits: pushes with a delay of more than a minute are assumed to end with those that are stored.
package forecast
