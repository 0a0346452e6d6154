-- Takes jobs out of lmstfy's timer or a ready queue into claims.
--
-- KEYS   claims, number of the last claim, timer_set (a sorted set) or a ready queue (a list, the oldest at its end)
-- ARGV   most jobs, how many to skip, '1' to count jobs instead, "timer" or the queue's NS/Q
-- Result {number of the claim, or how many jobs were counted; how many are skipped now, how many entries were found;
--        then NS/Q/ID and claim of each job}
--
-- A claim is NUMBER DUE TRIES EXPIRES BODY: due in seconds and expires in ms of the Unix time, 0 for a job that is
-- ready and one that does not expire.
--
-- Invariant: a job is in the timer or a queue, or in claims, never in both, and no consumer has it. Jobs without a body
-- were acknowledged or have expired, and are removed. A job of the timer whose delay is over by its id is leased until
-- it is due. One without tries is leased for the last time; it stays, and ends in the dead letter.
local most, skip, count, timer = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == 'timer'
if redis.replicate_commands then redis.replicate_commands() end -- for servers before 5.0, because of TIME
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function text(s, at)
  local n = struct.unpack('<I2', s, at)
  return string.sub(s, at + 2, at + 1 + n), at + 2 + n
end

local function parse(member)
  local name, at = ARGV[4], 1
  if timer then
    local namespace, queue
    namespace, at = text(member, at)
    queue, at = text(member, at)
    name = namespace .. '/' .. queue
  end
  local tries = struct.unpack('<I2', member, at)
  return name .. '/' .. text(member, at + 2), tries
end

-- An id ends in a ULID: the Unix ms at which it was made, and in its last four bytes the delay in s, little-endian. 0:
-- it had no delay, or is another id.
local function delayedUntil(id)
  local alphabet, made, last = '0123456789ABCDEFGHJKMNPQRSTVWXYZ', 0, 0
  for i = 1, 26 do
    local digit = string.find(alphabet, string.sub(id, i - 27, i - 27), 1, true)
    if not digit or #id < 26 then return 0 end
    if i <= 10 then made = made * 32 + digit - 1 end
    if i >= 20 then last = last * 32 + digit - 1 end
  end
  local delay = struct.unpack('<I4', struct.pack('>I4', last % 2 ^ 32))
  return delay > 0 and made / 1000 + delay or 0
end

-- lmstfy takes the time of an id first, and then that of the timer, in whole seconds.
local function leased(name, due)
  return timer and due * 1000 > now and due > delayedUntil(name) + 1
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
local number = count and 0 or redis.call('INCR', KEYS[2])
local result = {number, skip, #found / 2}
for i = 1, #found, 2 do
  local member, due = found[i], found[i + 1]
  local ok, name, tries = pcall(parse, member)
  local key = ok and 'j/' .. name
  local body = ok and redis.call('GET', key)
  if not ok or tries == 0 or body and leased(name, tonumber(due)) then
    result[2] = result[2] + 1
  elseif count then
    result[1], result[2] = result[1] + (body and 1 or 0), result[2] + 1
  else
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
