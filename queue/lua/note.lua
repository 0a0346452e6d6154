#!lua
-- Stores notes of dispatchers on their callbacks, for people to read. No job depends on them.
-- KEYS[1] the bucket's prefix.
-- ARGV    jobs reserved of each priority (three counts), then for each topic: topic; how many attempts, each as JSON,
--         oldest first; how many kinds of errors, each as fingerprint, how often, example; how many buckets of
--         lateness, each as bucket, count.
-- Returns 1.
-- Keeps   log:TOPIC a LIST of at most 100, err:TOPIC a HASH of at most 100, both gone a week after the last;
--         lat:SLOT:TOPIC (and lat:SLOT: of all topics) and pri:SLOT HASHes of one 10 s slot, gone after an hour.
local KEPT, WEEK, HOUR = 100, 604800, 3600
local slot = string.format('%d', floor(now / 10000))
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

local i = 4
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
  local buckets = tonumber(ARGV[i])
  i = i + 1
  for _, name in ipairs(buckets > 0 and {topic, ''} or {}) do
    local key = P .. 'lat:' .. slot .. ':' .. name
    for b = i, i + 2 * buckets - 1, 2 do call('HINCRBY', key, ARGV[b], ARGV[b + 1]) end
    call('EXPIRE', key, HOUR)
  end
  i = i + 2 * buckets
end
return 1
