-- Takes jobs out of a bucket or a ready queue of delay-queue into claims.
--
-- KEYS   claims, number of the last claim, the bucket (a sorted set by Unix s) or the ready queue (a list)
-- ARGV   most jobs, how many to skip, '1' to count jobs instead, "bucket" or "ready", Unix s: what was due then at the
--        head of a bucket is taken too
-- Result {number of the claim, or how many jobs were counted; how many are skipped now, how many entries were found;
--        then id and claim of each job}
--
-- A claim is NUMBER CLAIMED DUE TTR LENGTH TOPICBODY: times in ms, and the length of the topic. A job is msgpack in the
-- key of its id.
--
-- Invariant: a job is there or in claims, never in both, and no consumer has it. A timer copies a due entry at the head
-- of its bucket to a ready queue and then removes it, so these are left to it. An entry that is not due
-- belongs to a job that was popped: its consumer has it. Entries without a job are left to delay-queue, which removes
-- them.
local most, skip, count = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local bucket, stuck = ARGV[4] == 'bucket', tonumber(ARGV[5])
local head = 16 -- more than there are servers
if redis.replicate_commands then redis.replicate_commands() end -- for servers before 5.0, because of TIME
local clock = redis.call('TIME')
local now = tonumber(clock[1])

local function read(id)
  if redis.call('TYPE', id).ok ~= 'string' then return nil end
  local ok, job = pcall(cmsgpack.unpack, redis.call('GET', id))
  if not ok or type(job) ~= 'table' or job.Id ~= id or not job.Topic or not job.Body then return nil end
  job.Delay, job.TTR = tonumber(job.Delay), tonumber(job.TTR)
  return job.Delay and job.TTR and job
end

-- Wakecall does not accept such an id, so its job stays in delay-queue.
local function foreign(id)
  return #id > 128 or string.find(id, '%c') or string.find(id, '^ ') or string.find(id, ' $')
end

local function free(job, score, rank)
  if not bucket or job.Delay > now + 1 then return true end
  return score <= now and (rank >= head or score <= stuck)
end

local found = bucket and redis.call('ZRANGE', KEYS[3], skip, skip + most - 1, 'WITHSCORES')
  or redis.call('LRANGE', KEYS[3], skip, skip + most - 1)
local number = count and 0 or redis.call('INCR', KEYS[2])
local claim = string.format('%.0f %.0f', number, now * 1000 + math.floor(clock[2] / 1000))
local step = bucket and 2 or 1
local result = {number, skip, #found / step}
for i = 1, #found, step do
  local id, rank = found[i], skip + (i - 1) / step
  local job = read(id)
  local fits = job and not foreign(id) and free(job, tonumber(bucket and found[i + 1] or 0), rank)
  if fits and count then result[1] = result[1] + 1 end
  if fits and not count then
    local text = string.format('%s %.0f %.0f %d ', claim, job.Delay * 1000, job.TTR * 1000, #job.Topic)
      .. job.Topic .. job.Body
    redis.call('HSET', KEYS[1], id, text)
    redis.call('DEL', id)
    if bucket then redis.call('ZREM', KEYS[3], id) else redis.call('LREM', KEYS[3], 1, id) end
    result[#result + 1], result[#result + 2] = id, text
  else
    result[2] = result[2] + 1
  end
end
return result
