#!lua flags=no-writes
-- Counts jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    topics.
-- Returns the answer of statsOf for each.
-- Keeps   all invariants: it reads.
return statsOf(ARGV)
