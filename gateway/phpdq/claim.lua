-- Takes jobs out of a bucket or a ready queue of php-delayqueue into claims.
--
-- KEYS   claims, number of the last claim, the bucket (a sorted set) or the ready queue (a list), job_info
-- ARGV   most jobs, how many to skip, '1' to count jobs instead, "bucket" or "ready", the topics that may be taken
-- Result {number of the claim, or how many jobs were counted; how many are skipped now, how many entries were found;
--        then TOPIC:ID and claim of each job}
--
-- A claim is NUMBER CLAIMED SCORE BODY: the time in ms, and the score in the bucket or nothing.
--
-- Invariant: a job is in the bucket or the ready queue, or in claims, never in both. Jobs without a body are removed:
-- the consumers ignore them.
local most, skip, count, bucket = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == 'bucket'
if redis.replicate_commands then redis.replicate_commands() end -- for servers before 5.0, because of TIME
local taken = {}
for i = 5, #ARGV do taken[ARGV[i]] = true end
local found = bucket and redis.call('ZRANGE', KEYS[3], skip, skip + most - 1, 'WITHSCORES')
  or redis.call('LRANGE', KEYS[3], skip, skip + most - 1)
local number, now = count and 0 or redis.call('INCR', KEYS[2]), redis.call('TIME')
local claim = number .. ' ' .. now[1] * 1000 + math.floor(now[2] / 1000)
local step = bucket and 2 or 1
local result = {number, skip, #found / step}
for i = 1, #found, step do
  local name, score = found[i], bucket and found[i + 1] or ''
  local topic, id = string.match(name, '^([^:]*):(.*)$')
  local fits = taken[topic] and id ~= '' and #id <= 128
  if not fits or string.find(id, '%c') or string.find(id, '^ ') or string.find(id, ' $') then
    result[2] = result[2] + 1
  elseif count then
    result[1], result[2] = result[1] + redis.call('HEXISTS', KEYS[4], name), result[2] + 1
  else
    local body = redis.call('HGET', KEYS[4], name)
    if body then
      local text = claim .. ' ' .. score .. ' ' .. body
      redis.call('HSET', KEYS[1], name, text)
      redis.call('HDEL', KEYS[4], name)
      result[#result + 1], result[#result + 2] = name, text
    end
    if bucket then redis.call('ZREM', KEYS[3], name) else redis.call('LREM', KEYS[3], 1, name) end
  end
end
return result
