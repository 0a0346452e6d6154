#!lua flags=no-writes
-- Lists the topics to whose jobs something happened lately.
-- KEYS[1] the bucket's prefix.
-- ARGV    how many ms back, how many topics at most, how many to skip.
-- Returns topics.
-- Keeps   all invariants: it reads.
local from = string.format('%d', now - ARGV[1] - 1000)
return call('ZRANGE', P .. 'act', from, '+inf', 'BYSCORE', 'LIMIT', ARGV[3], ARGV[2])
