// Package recurring pushes the occurrences of schedules, and changes schedules.
//
// A definition is in the registry. Its cursor is in the schedule's shard: all occurrences up to it are decided. Every
// timer process has a Runner, and there is no leader: the script fire.lua pushes the jobs of an occurrence only with
// the cursor behind it, and only for the definition that the cursor knows. An edit tells the shard its definition
// before the registry commits it, so that a process with an older one pushes nothing.
//
//	schedules.go  reads and changes schedules, pushes by hand
//	place.go      tells the shard of an edit
//	runner.go     pushes what has come; lane.go has the schedules of a bucket
//	heal.go       makes registry and shard agree
//	push.go       the jobs
//	drain.go      moves schedules out of draining shards
package recurring
