package queue

import (
	"fmt"
	"strconv"
)

// prefix begins every key of a bucket. The scripts append:
//
//	(nothing)      on a Cluster: the slot guard, see slotguard.lua
//	seq            the number of the last page
//	rev            the revision of the last change in a journal, see changes.go
//	p:PAGE         LIST: the topic, then its records ('' where a job is gone)
//	cur            HASH: TOPIC or TOPIC/SLOT → the page that records are appended to; / → how many small hashes are
//	               split (and one field that makes it a table)
//	gone           HASH: PAGE → how many of its records are gone
//	pg:TOPIC       ZSET: unopened pages by the beginning of their minute
//	i:N, i:N/PART  HASH: 8 bytes of a hash of (topic, id) → reference; below 0: of a finished job
//	b:REF          STRING: a body longer than longBody
//	a:PAGE         HASH: index → attempts of a job that has had one
//	d:TOPIC        ZSET by time: delayed jobs that are near, wait for a retry, or belong to a thin topic
//	due            ZSET: topics by their next event
//	r:PRI:TOPIC    LIST: ready jobs
//	q:PRI          LIST: the ring of topics with ready jobs
//	exp            ZSET: topics with jobs that expire, by when to sweep them for expired ones
//	park           ZSET: PRI:TOPIC taken out of the ring, by when to check it again
//	lease, tok     ZSET of running jobs by the lease's end, HASH of their lease tokens (and one that makes it a table)
//	x:TOPIC        ZSET: dead jobs by when they died
//	nd nr nu nx    HASHes: TOPIC → count of delayed, ready, running, dead jobs
//	conf           HASH: TOPIC → its settings
//	f:TOPIC        HASH: window w, last use l, failures in a row k, breaker open until o and for b, gated g, pace t;
//	               missing while the window is the initial one and nothing limits the topic's calls
//	t:TOPIC        HASH: its totals, see lua/shared/base.lua; their values when the day began; those of earlier days
//	log:TOPIC, err:TOPIC, lat:SLOT, pri:SLOT   notes of dispatchers on their callbacks, see note.lua
//	act            ZSET: topics by when something last happened to their jobs, to the second
//	pos            position in the pattern of priorities
//	v:WORKER       the last reservation of a dispatcher, or of a server for workers
//	format, shard  the format of the data; the shard's identity, in bucket 0: see identity.go
//	run            the run id of the server that the hosts have compared with their journals: on another one no script
//	               works, see shards_compare.go
//	hosts          HASH: host → when it last attended (ms), its last finished comparison, how far its journal reaches
//	cmp, past      HASH of the last comparison, LIST of earlier ones
//	rv             HASH: what was replayed in the last comparison, by job
//	o:TOPIC, on:TOPIC   LISTs: the jobs that finished last, and four bytes of each locator, see finished.go
//	om, oc         ZSET: topics with such a list by when a job last finished; number of jobs in all these lists
//	op:PAGE        LIST: the topic, then finished jobs of a topic that remembers for a duration
//	og:TOPIC       LIST: its pages; oseq the number of the last one
//	old            ZSET: these pages by when all their jobs are too old
//	mover, moved, left   who moves jobs out of a draining shard, how many it moved lately, their last references
//	wait           written before each wait for a replica, so that there is a write to wait for
//	set            HASH: each host's settings that should be the same on all hosts
//	split          set while the timers leave small hashes alone
//	idle           set while a dispatcher waits for work
//	awaited        ZSET: pull topics that workers wait for, by when the entry expires
//	ww, ww:PROCESS SET of processes in which workers wait, and for each how many wait for its topics, see workers.lua
//	turn           HASH: priority → the topic whose turn is next when a worker names several
//	pull           the channel that names pull topics with new jobs which workers waited for
//	wake           the channel of wake-ups: T for timers, D for dispatchers, O when the bucket was opened
func prefix(bucket int) string { return fmt.Sprintf("wk:{%d}:", bucket) }

// smallHash returns the prefix of the keys of a bucket's small hashes, which hold the locators.
func smallHash(bucket int) string { return prefix(bucket) + "i:" }

// smallHashes makes the keys of a bucket's small hashes. splits may be out of date: the scripts then make the keys, and
// answer the new number.
type smallHashes struct {
	prefix           string
	locators, splits uint32
}

// appendKey appends the key of a locator's small hash, as smallHash in lua/shared computes it.
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

// registryChannel carries announcements that the registry changed, to every process.
const registryChannel = "wk:registry"

// locators is the number of small hashes of a whole deployment. When they have longHash locators each, first at four
// million jobs, each is split into hashParts (see lua/shared/locators.lua). Long hashes are slow: 64 locators make a
// push a third slower. Short ones take memory: 100 bytes each, shared by 7 locators at a million jobs. With four parts
// the number of keys would pass a power of two, and Redis would double its table of keys for the few above it.
const (
	locators  = 1 << 17
	hashParts = 3
	longHash  = 32
)

// thinTopic is the number of delayed jobs from which on pages of a minute save memory: each page takes 250 bytes
// besides its records; a job's entry in d:TOPIC, which replaces it, takes 20 bytes while Redis keeps the set small (128
// members), and 100 in a large one.
const thinTopic = 100
