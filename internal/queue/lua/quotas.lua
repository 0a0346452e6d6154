#!lua flags=no-writes
-- Reads how many jobs wait or run for each token with a quota of waiting jobs.
-- KEYS[1] the bucket's prefix.
-- Returns token and number, for each.
-- Keeps   it writes nothing.
return call('HGETALL', P .. 'quota')
