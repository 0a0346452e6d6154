package store

import (
	"fmt"
)

// Prefix begins every key of a bucket. The scripts append:
//
//	(nothing)        on a Cluster: the slot guard, see guard_slot.lua
//	j:TOPIC          HASH: id → record, of all jobs of a topic in any state; see record.go
//	w:PRIORITY:TOPIC ZSET: waiting jobs by the microsecond from which they may be called, without those in h
//	o:TOPIC          ZSET: those of w that have an order of their own: due ones by it, the others by due time (µs)
//	m:TOPIC          ZSET: minutes (since 1970) that have a list
//	f:TOPIC:MINUTE   LIST: ids of waiting jobs due in a minute far ahead
//	z:TOPIC          HASH: minute → how many ids in its list are out of date
//	h:TOPIC          ZSET: jobs that others of their key hold up, by the microsecond from which they might be called
//	k:TOPIC/KEY      ZSET: waiting and running jobs of a key by their due time (µs), negative: admitted; see key.lua
//	kt:TOPIC/KEY     until when a key rests after a call (ms)
//	l:TOPIC          ZSET: running jobs by the end of their lease (ms)
//	dead:TOPIC       ZSET: dead jobs by when they died (µs)
//	e:TOPIC          ZSET: waiting jobs that expire, by when (ms)
//	fin:TOPIC        ZSET: finished jobs that are remembered, by when they finished (µs), or 2 minutes later
//	fins, fin        ZSET: topics that remember their last jobs, by when one last finished; number of all these jobs
//	finh             ZSET: the same of topics that remember for a duration
//	b:TOPIC/ID       STRING: a body that is too long for its record
//	r:TOPIC/ID       STRING: the result of a finished job that somebody waited for, as JSON
//	a:TOPIC/ID       LIST: the last attempts of a job as JSON
//	g:GROUP          HASH: TOPIC/ID of the live jobs of a group; the value is empty
//	x:GROUP          HASH: who closed a group: topic patterns → until when (ms)
//	closed           ZSET: GROUP PATTERNS of all closed groups by until when (ms)
//	quota            HASH: token → how many jobs wait or run that count for its quota
//	rate:TOKEN       in bucket 0 of one shard, HASH: left, at: what the token may push now of its quota, see draw.lua
//	moved:KEY GROUP  HASH: TOPIC/ID of the jobs of a group that a request with this key has moved
//	pend:SHARD N     in bucket 0, HASH: name → cancellation of a group that bucket N of another shard has to carry
//	                 out, as JSON; see queue/pending.go
//	s:NAME           HASH: the state of a schedule, see shared/occurrence.lua
//	schedules        SET: the schedules of the bucket
//	q:PRIORITY       ZSET: topics with due jobs by turn; turn counts the turns
//	next             ZSET: topics by their next event (ms): a job that falls due, a lease that ends, …
//	c:TOPIC          HASH: a topic's settings, and the state of its window, rate and breaker; see shared/topic.lua
//	t:TOPIC          HASH: totals, see totals.go
//	topics           SET: topics with jobs
//	act              ZSET: topics that had jobs lately, by their last event
//	pos              how many jobs were taken by the pattern of priorities
//	turns            HASH: priority → the topic that was served last when a worker named several, by its number
//	v:NAME           the token of a caller's last reservation, and its jobs
//	rev              the revision of the last change, see changes.go
//	clock            the time in µs, where it stands until it is moved, see standing.go
//	idle             set while a dispatcher waits for work
//	start:MS         set while a dispatcher's start window is that wide, see startwindow.go
//	awaited          ZSET: pull topics that workers wait for, by when the entry expires
//	ww, ww:PROCESS   SET of processes in which workers wait; HASH of how many wait for each topic
//	log:TOPIC, err:TOPIC, lat:SLOT, pri:SLOT   notes on callbacks, see note.lua
//	format           see format
//	shard            the identity of the shard's data, see identity.go
//	absent           HASH: host whose journal may have changes that the data lacks → since when; reconcile/absent.go
//	hosts            HASH: the hosts that attend, four fields each; see shared/hosts.lua
//	cmp              HASH: the last comparison, see reconcile/compare.go: name, run (id of the compared server; on
//	                 another no script works), after, base, at, max; at HOST and by HOST (when it attended, and
//	                 that it has replayed its journal); upto once it has ended; before while hosts are absent: the
//	                 highest revision that they may know
//	past             LIST: the ended comparisons: name, after and base of each
//	rv               HASH: the ends of jobs and the schedules in lines that were replayed lately, or while hosts are
//	                 absent
//	mover, moved, left   who moves jobs out of a draining shard, how many it moved lately, the last ones
//	wait             written before each wait for a replica, so that there is a write to wait for
//	set, set:HOST    SET of hosts that have stored settings which should be the same on all; STRING: a host's
//	pull             the channel that names pull topics with new jobs which workers waited for
//	ended            the channel that names jobs that somebody waits for, as TOPIC/ID, when they end or are gone
//	wake             the channel of wake-ups: T for timers, D for dispatchers, O when the bucket was opened
func Prefix(bucket int) string { return fmt.Sprintf("wk:{%d}:", bucket) }

// RegistryChannel carries announcements that the registry changed, to every process.
const RegistryChannel = "wk:registry"
