#!lua
-- With: server.
-- Opens a bucket for tests, as if its hosts had compared it with their journals.
-- KEYS[1] the bucket's prefix.
-- ARGV    number of the data's format.
-- Returns OK.
-- Keeps   all invariants: revisions follow the clock, as after a comparison.
if tonumber(call('GET', P .. 'rev') or 0) < (now - EPOCH) * RATE then
  call('SET', P .. 'rev', text((now - EPOCH) * RATE))
end
call('HSET', P .. 'cmp', 'name', 'adopted', 'run', serverID(), 'upto', 0, 'base', 0)
return call('SET', P .. 'format', ARGV[1])
