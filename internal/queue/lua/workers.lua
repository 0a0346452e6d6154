#!lua flags=allow-oom
-- With: record.
-- Stores how many workers of a process wait for topics, or describes the workers of a topic: for people to read, no job
-- depends on it.
-- KEYS[1] the bucket's prefix.
-- ARGV    'note', process, for how many ms, topics and counts separated by spaces | 'read', topic.
-- Returns nothing | {number of waiting workers, when the oldest lease began, in s; 0: none is held}.
-- Keeps   all invariants: it touches no job.
local LEASES = 100 -- read at most, those that end first

if ARGV[1] == 'note' then
  call('SADD', P .. 'ww', ARGV[2])
  call('PEXPIRE', P .. 'ww', ARGV[3])
  call('SET', P .. 'ww:' .. ARGV[2], ' ' .. ARGV[4], 'PX', ARGV[3])
  return
end

local topic, waiting, oldest = ARGV[2], 0, 0
for _, process in ipairs(call('SMEMBERS', P .. 'ww')) do
  local noted = call('GET', P .. 'ww:' .. process)
  if not noted then call('SREM', P .. 'ww', process) end
  local _, at = string.find(noted or '', ' ' .. topic .. ' ', 1, true)
  if at then waiting = waiting + string.match(noted, '^%d+', at + 1) end
end
for _, id in ipairs(call('ZRANGE', P .. 'l:' .. topic, 0, LEASES - 1)) do
  local job = find(topic, id)
  local began = job and tonumber(string.match(get(job, 'token') or '', '^w(%x+)-'), 16) -- see lease.go
  if began and (oldest == 0 or began < oldest) then oldest = began end
end
return {waiting, oldest}
