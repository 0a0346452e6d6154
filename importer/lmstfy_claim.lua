-- Takes jobs out of lmstfy's timer or a ready queue into claims.
--
-- KEYS   claims, number of the last claim, timer_set (a sorted set) or a ready queue (a list, the oldest at its end)
-- ARGV   most jobs, how many to skip, "timer" or the queue's NS/Q
-- Result {number of the claim, how many are skipped now, how many entries were found; then NS/Q/ID and claim of each
--        job}
--
-- A claim is NUMBER DUE TRIES EXPIRES BODY: due in seconds and expires in ms of the Unix time, 0 for a job that is ready
-- and one that does not expire.
--
-- Invariant: a job is in the timer or a queue, or in claims, never in both. Jobs without a body were acknowledged or have
-- expired, and are removed. One without tries is leased for the last time; it stays, and ends in the dead letter.
local most, skip, timer = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == 'timer'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function text(s, at)
  local n = struct.unpack('<I2', s, at)
  return string.sub(s, at + 2, at + 1 + n), at + 2 + n
end

local function parse(member)
  local name, at = ARGV[3], 1
  if timer then
    local namespace, queue
    namespace, at = text(member, at)
    queue, at = text(member, at)
    name = namespace .. '/' .. queue
  end
  local tries = struct.unpack('<I2', member, at)
  return name .. '/' .. text(member, at + 2), tries
end

local found
if timer then
  found = redis.call('ZRANGE', KEYS[3], skip, skip + most - 1, 'WITHSCORES')
else
  local list = redis.call('LRANGE', KEYS[3], -skip - most, -skip - 1)
  found = {}
  for i = #list, 1, -1 do
    found[#found + 1], found[#found + 2] = list[i], '0'
  end
end
local number = redis.call('INCR', KEYS[2])
local result = {number, skip, #found / 2}
for i = 1, #found, 2 do
  local member, due = found[i], found[i + 1]
  local ok, name, tries = pcall(parse, member)
  if not ok or tries == 0 then
    result[2] = result[2] + 1
  else
    local key = 'j/' .. name
    local body = redis.call('GET', key)
    if body then
      local left = redis.call('PTTL', key)
      local expires = left > 0 and string.format('%d', now + left) or '0'
      local claim = table.concat({number, due, tries, expires, body}, ' ')
      redis.call('HSET', KEYS[1], name, claim)
      redis.call('DEL', key)
      result[#result + 1], result[#result + 2] = name, claim
    end
    if timer then redis.call('ZREM', KEYS[3], member) else redis.call('LREM', KEYS[3], -1, member) end
  end
end
return result
