-- Takes jobs out of lmstfy's timer or a ready queue into claims, with ../importer/claim.lua.
--
-- KEYS   claims, number of the last claim, timer_set (a sorted set) or a ready queue (a list, the oldest at its end)
-- ARGV   three as in ../importer/claim.lua, "timer" or the queue's NS/Q
-- Result as in ../importer/claim.lua; a job's name is NS/Q/ID
--
-- A claim is NUMBER DUE TRIES EXPIRES BODY: due in seconds and expires in ms of the Unix time, 0 for a job that is
-- ready and one that does not expire.
--
-- Invariant: a job is in the timer or a queue, or in claims, never in both, and no consumer has it. Jobs without a body
-- were acknowledged or have expired, and are removed. A job of the timer whose delay is over by its id is leased until
-- it is due. One without tries is leased for the last time; it stays, and ends in the dead letter.
local timer = ARGV[4] == 'timer'

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

return claim(timer and 'set' or 'tail', function(member, score)
  local ok, name, tries = pcall(parse, member)
  if not ok or tries == 0 then return false end
  local key, due = 'j/' .. name, score or '0'
  local body = call('GET', key)
  if not body then return true end
  if leased(name, tonumber(due)) then return false end
  local left = call('PTTL', key)
  local expires = left > 0 and string.format('%d', now + left) or '0'
  return true, name, table.concat({due, tries, expires, body}, ' '), {'DEL', key}
end)
