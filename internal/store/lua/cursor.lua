#!lua flags=allow-oom
-- With: record, occurrence.
-- Sets what a schedule's cursor knows of its definition, or removes the schedule.
-- KEYS[1] the bucket's prefix.
-- ARGV    name, topic ('' to remove it), revision of the definition as the caller knows it ('' any, '0' none), cursor
--         as the caller knows it ('' any), new revision, how many occurrences are left out by the change, and why, new
--         cursor ('' as it is, or now if there is none), then other fields and their values.
-- Returns {what, cursor, revision of the definition, revision of the change, what journals need (occurrence.lua, six)}.
--         What is 'set', 'removed', 'other' (the definition has another revision: nothing is changed), 'moved' (the
--         cursor is another one: likewise), or 'none' (nothing to remove).
-- Keeps   a definition replaces only the one before it, so a host with an older one fires nothing.
local key, topic = P .. 's:' .. ARGV[1], ARGV[2]
local have = call('HMGET', key, 'rev', 'at')
local rev, at = have[1] or '0', have[2] or ''
local function answer(what, revision)
  local out = {what, tonumber(at) or 0, tonumber(rev), revision}
  for _, v in ipairs(noted(key, lastOf(key))) do out[#out + 1] = v or '0' end
  return out
end
if topic == '' and rev == '0' then return answer('none', 0) end
if ARGV[3] ~= '' and rev ~= ARGV[3] then return answer('other', 0) end
if ARGV[4] ~= '' and at ~= ARGV[4] then return answer('moved', 0) end
local revision = call('INCR', P .. 'rev')
if topic == '' then
  call('UNLINK', key)
  call('SREM', P .. 'schedules', ARGV[1])
  return answer('removed', revision)
end
if ARGV[8] ~= '' then at = ARGV[8] end
if at == '' then at = text(now) end
rev = ARGV[5]
call('HSET', key, 'topic', topic, 'rev', rev, 'at', at, 'revision', revision, unpack(ARGV, 9))
leaveOut(key, ARGV[7], tonumber(ARGV[6]))
call('SADD', P .. 'schedules', ARGV[1])
return answer('set', revision)
