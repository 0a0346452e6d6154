// Package recurring pushes the occurrences of schedules, and changes schedules.
//
// A definition is in the registry, its cursor in the schedule's shard: all occurrences up to it are decided. Every timer
// process has a Runner, and there is no leader: the script fire.lua pushes the jobs of an occurrence only together with
// the cursor behind it, and only for the definition that the cursor knows.
//
//	schedules.go  reads and changes schedules, pushes by hand
//	runner.go     pushes what has come
//	drain.go      moves schedules out of a draining shard
package recurring
