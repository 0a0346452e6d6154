-- Takes jobs out of a queue of an old system into claims. It precedes the script of a gateway, which describes its
-- further arguments and its claims, and ends with a call of claim.
--
-- KEYS   claims, number of the last claim, the queue (a list or a sorted set), more of the gateway
-- ARGV   most jobs, how many to skip, '1' to count jobs instead, more of the gateway
-- Result {number of the claim, or how many jobs were counted; how many are skipped now, how many entries were found;
--        then name and claim of each job}
--
-- Invariant: a job is in the old system or in claims, never in both. A claim begins with its number.
local most, skip, count = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local call = redis.call
if redis.replicate_commands then redis.replicate_commands() end -- for servers before 5.0, because of TIME
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Whether Wakecall accepts an id. The job of another one stays in the old system.
local function accepts(id)
  return #id <= 128 and not (string.find(id, '%c') or string.find(id, '^ ') or string.find(id, ' $'))
end

-- The entries of the queue: from the 'head' or the 'tail' of a list, or of a sorted 'set', then each with its score.
local function entries(from)
  local found = {}
  if from == 'set' then
    local list = call('ZRANGE', KEYS[3], skip, skip + most - 1, 'WITHSCORES')
    for i = 1, #list, 2 do found[#found + 1] = {list[i], list[i + 1]} end
  elseif from == 'head' then
    for i, member in ipairs(call('LRANGE', KEYS[3], skip, skip + most - 1)) do found[i] = {member} end
  else
    local list = call('LRANGE', KEYS[3], -skip - most, -skip - 1)
    for i = #list, 1, -1 do found[#found + 1] = {list[i]} end
  end
  return found
end

local function remove(from, member)
  if from == 'set' then return call('ZREM', KEYS[3], member) end
  call('LREM', KEYS[3], from == 'head' and 1 or -1, member)
end

-- Claims jobs of the queue. look(member, score, rank) returns false for an entry that stays, or true, and then, if the
-- entry has a job: the job's name, its claim without the number, and the command that deletes it.
local function claim(from, look)
  local found, number = entries(from), count and 0 or call('INCR', KEYS[2])
  local result = {number, skip, #found}
  for i, entry in ipairs(found) do
    local takes, name, rest, delete = look(entry[1], entry[2], skip + i - 1)
    if count and name then result[1] = result[1] + 1 end
    if count or not takes then
      result[2] = result[2] + 1
    else
      if name then
        local text = string.format('%.0f ', number) .. rest
        call('HSET', KEYS[1], name, text)
        call(unpack(delete))
        result[#result + 1], result[#result + 2] = name, text
      end
      remove(from, entry[1])
    end
  end
  return result
end
