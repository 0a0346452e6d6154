package queue

import (
	"fmt"
	"strconv"
)

// prefix begins every key of a bucket. The scripts append:
//
//	(nothing)      on a Cluster: the slot guard, see slotguard.lua
//	seq            the number of the last page
//	rev            the revision of the last change that a journal has, see changes.go
//	p:PAGE         LIST: the topic, then its records ('' where a job is gone)
//	cur            HASH: TOPIC or TOPIC/SLOT → the page that records are appended to; / → how many small hashes are
//	               split (and one field that makes it a table)
//	gone           HASH: PAGE → how many of its records are gone
//	pg:TOPIC       ZSET: unopened pages by the beginning of their minute
//	i:N, i:N/PART  HASH: 8 bytes of a hash of (topic, id) → reference; below 0: of a finished job
//	b:REF          STRING: a body longer than longBody
//	a:PAGE         HASH: index → attempts of a job that has had one
//	d:TOPIC        ZSET: delayed jobs that are near, wait for a retry, or are of a thin topic, by time
//	due            ZSET: topics by their next event
//	r:PRI:TOPIC    LIST: ready jobs
//	q:PRI          LIST: the ring of topics with ready jobs
//	exp            ZSET: TOPIC with jobs that expire, by when to sweep it for expired ones
//	park           ZSET: PRI:TOPIC out of the ring, by when to check it again
//	lease, tok     ZSET of running jobs by the lease's end, HASH of their lease tokens (and one that makes it a table)
//	x:TOPIC        ZSET: dead jobs by when they died
//	nd nr nu nx    HASHes: TOPIC → count of delayed, ready, running, dead jobs
//	conf           HASH: TOPIC → its settings
//	f:TOPIC        HASH: window w, last use l, failures in a row k, breaker open until o and for b, gated g, pace t; of a
//	               topic whose window is the first one and whose calls nothing limits there is none
//	t:TOPIC        HASH: its totals, see lua/shared/base.lua; where they stood when the day began; the days before
//	log:TOPIC, err:TOPIC, lat:SLOT, pri:SLOT   notes of dispatchers on their callbacks, see note.lua
//	act            ZSET: topics by when something happened to their jobs last, to the second
//	pos            position in the pattern of priorities
//	v:WORKER       the last reservation of a dispatcher, or of a server for workers
//	shard          which shard the data is, in bucket 0, see identity.go
//	run            the run id of the server that the hosts have compared with their journals: on another one no script
//	               works, see shards_compare.go
//	hosts          HASH: host → when it attended last (ms), the comparison it has done last, how far its journal reaches
//	cmp, past      HASH of the last comparison, LIST of those before
//	rv             HASH: what was replayed in the last comparison, by job
//	seen           HASH: what versions before revisions noted of their hosts
//	o:TOPIC, on:TOPIC   LISTs: the jobs that finished last, and four bytes of each locator, see finished.go
//	om, oc         ZSET: topics that have such a list by when a job finished last, how many all of them have
//	op:PAGE        LIST: the topic, then jobs that finished in a topic that remembers for a duration
//	og:TOPIC       LIST: its pages; oseq the number of the last one
//	old            ZSET: these pages by when all in them is too old
//	mover, moved, left   who moves jobs out of a draining shard, how many were moved of late, the last references
//	wait           written before each wait for a replica, so that there is something to wait for
//	set            HASH: what each host has set that all should have alike
//	split          set while the timers leave small hashes alone
//	idle           set while a dispatcher waits for work
//	awaited        ZSET: pull topics that workers wait for, by until when that counts
//	ww, ww:PROCESS SET of processes in which workers wait, and for each how many wait for its topics, see workers.lua
//	turn           HASH: priority → which of several topics a worker gets a job of next
//	pull           the channel that names pull topics which somebody waited for
//	wake           the channel of wake-ups: T for timers, D for dispatchers, O when the bucket was opened
func prefix(bucket int) string { return fmt.Sprintf("wk:{%d}:", bucket) }

// smallHash begins the keys of a bucket's small hashes, which have the locators.
func smallHash(bucket int) string { return prefix(bucket) + "i:" }

// smallHashes makes the keys of a bucket's small hashes. splits may be out of date: the scripts then make the keys,
// and answer the new number.
type smallHashes struct {
	prefix           string
	locators, splits uint32
}

// appendKey appends the key of the small hash that a locator is in, as smallHash in lua/shared does.
func (s smallHashes) appendKey(b []byte, l locator) []byte {
	n := uint32(l[0])<<16 | uint32(l[1])<<8 | uint32(l[2])
	b = strconv.AppendUint(append(b, s.prefix...), uint64(n), 10)
	parts := uint32(1)
	for splits := s.splits; splits > n; splits -= min(splits, s.locators) {
		parts *= hashParts
	}
	if part := uint32(l[3]) % parts; part != 0 {
		b = strconv.AppendUint(append(b, '/'), uint64(part), 10)
	}
	return b
}

func pullChannel(bucket int) string { return prefix(bucket) + "pull" }

func wakeChannel(bucket int) string { return prefix(bucket) + "wake" }

// registryChannel tells every process that the registry changed.
const registryChannel = "wk:registry"

// locators is the number of small hashes of a whole deployment. When they have longHash locators each, for the first
// time at four million jobs, each is split in hashParts (see lua/shared/locators.lua). Long ones are slow: 64
// locators make a push a third slower. Short ones take memory: 100 bytes each, shared by 7 locators at a million
// jobs. With four parts the number of keys would pass a power of two, and Redis would grow its table of keys for the
// few above it.
const (
	locators  = 1 << 17
	hashParts = 3
	longHash  = 32
)

// thinTopic is how many delayed jobs a topic has before pages of a minute pay: each page takes 250 bytes beside its
// records, the place in d:TOPIC that a job has instead takes 20 as long as Redis keeps the set small (128 members),
// and 100 in a large one.
const thinTopic = 100
