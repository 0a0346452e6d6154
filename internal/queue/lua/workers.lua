#!lua flags=allow-oom
-- With: record.
-- Stores how many workers of a process wait for topics, for people to read, or describes the workers of a topic. A
-- topic for which none waits any more is not awaited either; workers of other processes that wait for it take again.
-- KEYS[1] the bucket's prefix.
-- ARGV    'note', process, for how many ms, then topics and their numbers of workers | 'read', topic.
-- Returns nothing | {number of waiting workers, when the oldest lease began, in s; 0: none is held}.
-- Keeps   all invariants: it touches no job.
local LEASES = 100 -- read at most, those that end first

if ARGV[1] == 'note' then
  local key, left = P .. 'ww:' .. ARGV[2], {}
  for i = 4, #ARGV, 2 do
    local topic, n = ARGV[i], ARGV[i + 1]
    if n ~= '0' then
      call('HSET', key, topic, n)
    else
      call('HDEL', key, topic)
      if call('ZREM', P .. 'awaited', topic) == 1 then left[#left + 1] = topic end
    end
  end
  if #left > 0 then call('PUBLISH', P .. 'pull', table.concat(left, ' ')) end
  call('SADD', P .. 'ww', ARGV[2])
  call('PEXPIRE', P .. 'ww', ARGV[3])
  call('PEXPIRE', key, ARGV[3])
  return
end

local topic, waiting, oldest = ARGV[2], 0, 0
for _, process in ipairs(call('SMEMBERS', P .. 'ww')) do
  local key = P .. 'ww:' .. process
  waiting = waiting + (call('HGET', key, topic) or 0)
  if call('EXISTS', key) == 0 then call('SREM', P .. 'ww', process) end
end
for _, id in ipairs(call('ZRANGE', P .. 'l:' .. topic, 0, LEASES - 1)) do
  local job = find(topic, id)
  local began = job and tonumber(string.match(get(job, 'token') or '', '^w(%x+)-'), 16) -- see lease.go
  if began and (oldest == 0 or began < oldest) then oldest = began end
end
return {waiting, oldest}
