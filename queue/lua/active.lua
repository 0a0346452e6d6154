#!lua flags=no-writes
-- Lists the topics to whose jobs something happened lately.
-- KEYS[1] the bucket's prefix.
-- ARGV    ms to look back, how many to list at most, how many to pass over.
-- Returns topics.
return call('ZRANGE', P .. 'act', string.format('%d', now - ARGV[1] - 1000), '+inf', 'BYSCORE', 'LIMIT', ARGV[3], ARGV[2])
