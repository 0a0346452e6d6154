#!lua flags=allow-oom
-- With: record, occurrence.
-- Sets what a schedule's cursor knows of its definition, or removes the schedule.
-- KEYS[1] the bucket's prefix.
-- ARGV    name, topic ('' to remove it), revision of the definition as the caller knows it ('' none), new revision, how
--         many occurrences are left out by the change, and why, cursor ('' now).
-- Returns {what, cursor, revision of the definition, revision of the change}. What is 'set', 'removed', 'other' (the
--         definition has another revision: nothing is changed), or 'none' (nothing to remove).
-- Keeps   a definition replaces only the one before it, so a host with an older one fires nothing.
local key, topic = P .. 's:' .. ARGV[1], ARGV[2]
local have = call('HMGET', key, 'rev', 'at')
local rev, at = have[1] or '', tonumber(have[2] or 0)
if topic == '' and rev == '' then return {'none', 0, 0, 0} end
if rev ~= ARGV[3] then return {'other', at, tonumber(rev) or 0, 0} end
local revision = call('INCR', P .. 'rev')
if topic == '' then
  call('UNLINK', key)
  call('SREM', P .. 'schedules', ARGV[1])
  return {'removed', at, tonumber(rev), revision}
end
at = tonumber(ARGV[7]) or now
call('HSET', key, 'topic', topic, 'rev', ARGV[4], 'at', text(at), 'revision', revision)
if ARGV[5] ~= '0' then call('HINCRBY', key, ARGV[6], ARGV[5]) end
call('SADD', P .. 'schedules', ARGV[1])
return {'set', at, tonumber(ARGV[4]), revision}
