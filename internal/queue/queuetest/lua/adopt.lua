#!lua
-- With: server.
-- Opens a bucket for tests, as if its hosts had compared it with their journals.
-- KEYS[1] the bucket's prefix.
-- ARGV    number of the data's format.
-- Returns OK.
-- Keeps   all invariants: an empty bucket stays empty.
call('SET', P .. 'run', serverID())
return call('SET', P .. 'format', ARGV[1])
