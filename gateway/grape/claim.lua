-- Takes jobs out of a tube's delay queue of Grape into claims.
--
-- KEYS   claims, number of the last claim, the delay queue (a sorted set by Unix ms), the lock of its consumers and
-- that
--        of consumers of earlier versions
-- ARGV   most jobs, how many to skip, '1' to count jobs instead, what a job's key begins with, what its claim's name
--        begins with
-- Result {number of the claim, or how many jobs were counted; how many are skipped now, how many entries were found;
--        then name and claim of each job}
--
-- A claim is NUMBER CLAIMED DUE TTR BODY with times in ms. A job is a hash with id, dtr, ttr, noe and data.
--
-- Invariant: a job is there or in claims, never in both, and no consumer has it. A consumer that holds the lock may
-- have read jobs that are due and not moved them to the retain queue yet. Its clock may be a minute fast.
local most, skip, count, never = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1', 1e15
if redis.replicate_commands then redis.replicate_commands() end -- for servers before 5.0, because of TIME
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local locked = not count and redis.call('EXISTS', KEYS[4]) + redis.call('EXISTS', KEYS[5]) > 0

-- Wakecall does not accept such an id, so its job stays in Grape.
local function foreign(id)
  return #id > 128 or string.find(id, '%c') or string.find(id, '^ ') or string.find(id, ' $')
end

local found = redis.call('ZRANGE', KEYS[3], skip, skip + most - 1, 'WITHSCORES')
local number = count and 0 or redis.call('INCR', KEYS[2])
local claim = string.format('%.0f %.0f', number, now)
local result = {number, skip, #found / 2}
for i = 1, #found, 2 do
  local id, due = found[i], tonumber(found[i + 1])
  local key = ARGV[4] .. id
  local job = redis.call('HMGET', key, 'ttr', 'data')
  local ttr = tonumber(job[1] or '')
  if (locked and due < now + 60000) or not ttr or not job[2] or foreign(id) then -- what is not a job Grape removes
    result[2] = result[2] + 1
  elseif count then
    result[1], result[2] = result[1] + 1, result[2] + 1
  else
    local text = string.format('%s %.0f %.0f ', claim, math.min(due, never), math.min(ttr, 86400000)) .. job[2]
    redis.call('HSET', KEYS[1], ARGV[5] .. id, text)
    redis.call('DEL', key)
    redis.call('ZREM', KEYS[3], id)
    result[#result + 1], result[#result + 2] = ARGV[5] .. id, text
  end
end
return result
