#!lua flags=no-writes
-- Counts jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    topics.
-- Returns for each what statsOf has of it.
-- Keeps   all invariants: it reads.
return statsOf(ARGV)
