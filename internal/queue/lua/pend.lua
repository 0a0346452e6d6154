#!lua flags=allow-oom
-- Stores, or removes, cancellations of groups that buckets of other shards have to carry out.
-- KEYS[1] the bucket's prefix.
-- ARGV    'add' or 'remove', then fields of pend, each with its value when they are added.
-- Returns how many there are.
-- Keeps   timers and dispatchers are told of each.
local key = P .. 'pend'
if ARGV[1] == 'add' then
  call('HSET', key, unpack(ARGV, 2))
  call('PUBLISH', P .. 'wake', 'P')
else
  call('HDEL', key, unpack(ARGV, 2))
end
return call('HLEN', key)
