#!lua flags=allow-oom
-- Stores, or removes, cancellations of groups that buckets of other shards have to carry out.
-- KEYS[1] the bucket's prefix.
-- ARGV    'add', then three for each: key of the other bucket, name of the cancellation, what it is; or 'remove', key,
--         name.
-- Returns how many were removed; nothing when they are stored.
-- Keeps   timers and dispatchers are notified of what is stored.
if ARGV[1] == 'remove' then return call('HDEL', P .. ARGV[2], ARGV[3]) end
for i = 2, #ARGV, 3 do call('HSET', P .. ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
call('PUBLISH', P .. 'wake', 'P')
