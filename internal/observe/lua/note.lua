#!lua
-- Stores notes of dispatchers on their callbacks, for people to read. No job depends on them.
-- KEYS[1] the bucket's prefix.
-- ARGV    jobs reserved of each priority (three counts), then for each topic: topic ('' all together); how many
--         attempts, kinds of errors and buckets of lateness; the attempts as JSON, oldest first; each kind as
--         fingerprint, how often, example; each bucket as bucket, count.
-- Returns nothing.
-- Keeps   log:TOPIC a LIST of at most 100, err:TOPIC a HASH of at most 100, both gone a week after the last;
--         lat:SLOT a HASH of topics ('' all together) with their buckets and counts, and pri:SLOT a HASH, both of one
--         10 s slot and gone after an hour.
local KEPT, WEEK, HOUR, SLOTS = 100, 604800, 3600, 360
local slot = math.floor(now / 10000)

-- Stores the n attempts that begin at an argument.
local function noteAttempts(topic, from, n)
  local key = P .. 'log:' .. topic
  call('LPUSH', key, unpack(ARGV, from, from + n - 1))
  call('LTRIM', key, 0, KEPT - 1)
  call('EXPIRE', key, WEEK)
end

local function forgetOldest(key)
  local all, last = call('HGETALL', key), {}
  for i = 1, #all, 2 do last[#last + 1] = {tonumber(string.match(all[i + 1], '^%d+ %d+ (%d+) ')), all[i]} end
  table.sort(last, function(a, b) return a[1] < b[1] end)
  for i = 1, #last - KEPT do call('HDEL', key, last[i][2]) end
end

-- Counts the n kinds of errors that begin at an argument.
local function noteErrors(topic, from, n)
  local key = P .. 'err:' .. topic
  for i = from, from + 3 * n - 1, 3 do
    local count, first = string.match(call('HGET', key, ARGV[i]) or '', '^(%d+) (%d+) ')
    count, first = text((count or 0) + ARGV[i + 1]), first or text(now)
    call('HSET', key, ARGV[i], count .. ' ' .. first .. ' ' .. text(now) .. ' ' .. ARGV[i + 2])
  end
  if call('HLEN', key) > KEPT then forgetOldest(key) end
  call('EXPIRE', key, WEEK)
end

-- Adds the n counts of lateness that begin at an argument to those of a topic in this slot.
local function noteLateness(topic, from, n)
  local key, counts, words = P .. 'lat:' .. slot, {}, {}
  for bucket, count in string.gmatch(call('HGET', key, topic) or '', '(%S+) (%S+)') do counts[bucket] = count end
  for i = from, from + 2 * n - 1, 2 do counts[ARGV[i]] = (counts[ARGV[i]] or 0) + ARGV[i + 1] end
  for bucket, count in pairs(counts) do words[#words + 1] = bucket .. ' ' .. text(count) end
  call('HSET', key, topic, table.concat(words, ' '))
end

for p = 1, 3 do
  if ARGV[p] ~= '0' then call('HINCRBY', P .. 'pri:' .. slot, p - 1, ARGV[p]) end
end
call('EXPIRE', P .. 'pri:' .. slot, HOUR)
local i = 4
while i <= #ARGV do
  local topic, attempts, kinds, buckets = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  i = i + 4
  if attempts > 0 then noteAttempts(topic, i, attempts) end
  i = i + attempts
  if kinds > 0 then noteErrors(topic, i, kinds) end
  i = i + 3 * kinds
  if buckets > 0 then noteLateness(topic, i, buckets) end
  i = i + 2 * buckets
end
call('EXPIRE', P .. 'lat:' .. slot, HOUR + 600)
call('UNLINK', P .. 'lat:' .. slot - SLOTS - 1) -- in the background: the expiry of a slot of many topics would block
