#!lua
-- Stores notes of dispatchers on their callbacks, for people to read. No job depends on them.
-- KEYS[1] the bucket's prefix.
-- ARGV    jobs reserved of each priority (three counts), then for each topic: topic; how many attempts, each as JSON,
--         oldest first; how many kinds of errors, each as fingerprint, how often, example; how many buckets of
--         lateness, each as bucket, count.
-- Returns 1.
-- Keeps   log:TOPIC a LIST of at most 100, err:TOPIC a HASH of at most 100, both gone a week after the last;
--         lat:SLOT a HASH of topics ('' all together) with their buckets and counts, and pri:SLOT a HASH, both of one
--         10 s slot and gone after an hour.
local KEPT, WEEK, HOUR, SLOTS = 100, 604800, 3600, 360
local slot = text(math.floor(now / 10000))
local stamp = string.format('%d', now)

local function forgetOldest(key)
  local all = call('HGETALL', key)
  if #all <= 2 * KEPT then return end
  local last = {}
  for i = 1, #all, 2 do last[#last + 1] = {string.match(all[i + 1], '^%d+ %d+ (%d+) '), all[i]} end
  table.sort(last, function(a, b) return tonumber(a[1]) < tonumber(b[1]) end)
  for i = 1, #last - KEPT do call('HDEL', key, last[i][2]) end
end

local function noteError(key, print, n, example)
  local old = call('HGET', key, print)
  local count, first = 0, stamp
  if old then count, first = string.match(old, '^(%d+) (%d+) ') end
  call('HSET', key, print, string.format('%d', count + n) .. ' ' .. first .. ' ' .. stamp .. ' ' .. example)
end

-- Adds to the counts of topics in this slot. A slot of many topics is removed by UNLINK in the background, since expiry
-- would block.
local function noteLateness(byTopic)
  local key, names, args = P .. 'lat:' .. slot, {}, {}
  for topic in pairs(byTopic) do names[#names + 1] = topic end
  for i, packed in ipairs(#names > 0 and call('HMGET', key, unpack(names)) or {}) do
    local counts, words = byTopic[names[i]], {}
    for bucket, n in string.gmatch(packed or '', '(%S+) (%S+)') do counts[bucket] = (counts[bucket] or 0) + n end
    for bucket, n in pairs(counts) do words[#words + 1] = bucket .. ' ' .. string.format('%d', n) end
    args[2 * i - 1], args[2 * i] = names[i], table.concat(words, ' ')
  end
  if #args > 0 then call('HSET', key, unpack(args)) end
  call('EXPIRE', key, HOUR + 600)
  call('UNLINK', P .. 'lat:' .. string.format('%d', slot - SLOTS - 1))
end

local i, all, lateness = 4, {}, {}
for p = 1, 3 do
  if ARGV[p] ~= '0' then call('HINCRBY', P .. 'pri:' .. slot, p - 1, ARGV[p]) end
end
call('EXPIRE', P .. 'pri:' .. slot, HOUR)
while i <= #ARGV do
  local topic, attempts = ARGV[i], tonumber(ARGV[i + 1])
  i = i + 2
  if attempts > 0 then
    local key = P .. 'log:' .. topic
    call('LPUSH', key, unpack(ARGV, i, i + attempts - 1))
    call('LTRIM', key, 0, KEPT - 1)
    call('EXPIRE', key, WEEK)
  end
  i = i + attempts
  local kinds = tonumber(ARGV[i])
  i = i + 1
  if kinds > 0 then
    local key = P .. 'err:' .. topic
    for _ = 1, kinds do
      noteError(key, ARGV[i], ARGV[i + 1], ARGV[i + 2])
      i = i + 3
    end
    forgetOldest(key)
    call('EXPIRE', key, WEEK)
  end
  local buckets, counts = tonumber(ARGV[i]), {}
  for b = i + 1, i + 2 * buckets, 2 do
    counts[ARGV[b]] = ARGV[b + 1]
    all[ARGV[b]] = (all[ARGV[b]] or 0) + ARGV[b + 1]
  end
  if buckets > 0 then lateness[topic], lateness[''] = counts, all end
  i = i + 1 + 2 * buckets
end
noteLateness(lateness)
return 1
