-- Takes jobs out of a bucket or a ready queue of php-delayqueue into claims.
--
-- KEYS   job_info, claims, number of the last claim, the bucket (a sorted set) or the ready queue (a list)
-- ARGV   most jobs, how many to skip, "bucket" or "ready", the topics that may be taken
-- Result {number of the claim, how many are skipped now, id of a job, its score, its body, …}
--
-- Invariant: a job is in the bucket or the ready queue, or in claims, never in both. Jobs without a body are removed: the
-- consumers ignore them.
local most, skip, bucket = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == 'bucket'
if redis.replicate_commands then redis.replicate_commands() end -- for servers before 5.0, because of TIME
local taken = {}
for i = 4, #ARGV do taken[ARGV[i]] = true end
local found = bucket and redis.call('ZRANGE', KEYS[4], skip, skip + most - 1, 'WITHSCORES')
  or redis.call('LRANGE', KEYS[4], skip, skip + most - 1)
local number, now = redis.call('INCR', KEYS[3]), redis.call('TIME')
local claim = number .. ' ' .. now[1] * 1000 + math.floor(now[2] / 1000)
local result = {number, skip}
for i = 1, #found, bucket and 2 or 1 do
  local name, score = found[i], bucket and found[i + 1] or ''
  local topic, id = string.match(name, '^([^:]*):(.*)$')
  if not taken[topic] or id == '' or #id > 128 or string.find(id, '%c') or string.find(id, '^ ') or string.find(id, ' $') then
    result[2] = result[2] + 1
  else
    local body = redis.call('HGET', KEYS[1], name)
    if body then
      redis.call('HSET', KEYS[2], name, claim .. ' ' .. score .. ' ' .. body)
      redis.call('HDEL', KEYS[1], name)
      result[#result + 1], result[#result + 2], result[#result + 3] = name, score, body
    end
    if bucket then redis.call('ZREM', KEYS[4], name) else redis.call('LREM', KEYS[4], 1, name) end
  end
end
return result
