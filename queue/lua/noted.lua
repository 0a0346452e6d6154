#!lua
-- Reads what note.lua stored, or (clear) removes the errors of a topic.
-- KEYS[1] the bucket's prefix.
-- ARGV    'log', topic, limit | 'err', topic | 'clear', topic | 'lat', slots back, topics ('' for all together) |
--         'pri', slots back.
-- Returns log: JSON texts, newest first; err: fingerprints and "count first last example"; clear: 1; lat: for each
--         topic its buckets, each followed by its count; pri: three counts.
-- Keeps   all invariants: notes are nobody else's.
local what = ARGV[1]
if what == 'log' then return call('LRANGE', P .. 'log:' .. ARGV[2], 0, ARGV[3] - 1) end
if what == 'err' then return call('HGETALL', P .. 'err:' .. ARGV[2]) end
if what == 'clear' then return call('DEL', P .. 'err:' .. ARGV[2]) end
local last = floor(now / 10000)
local function slot(s) return string.format('%d', s) end

local function lateness(topic)
  local counts, list = {}, {}
  for s = last - ARGV[2], last do
    local some = call('HGETALL', P .. 'lat:' .. slot(s) .. ':' .. topic)
    for i = 1, #some, 2 do counts[some[i]] = (counts[some[i]] or 0) + some[i + 1] end
  end
  for bucket, n in pairs(counts) do list[#list + 1], list[#list + 2] = tonumber(bucket), n end
  return list
end

if what == 'lat' then
  local lists = {}
  for i = 3, #ARGV do lists[i - 2] = lateness(ARGV[i]) end
  return lists
end
local sums = {0, 0, 0}
for s = last - ARGV[2], last do
  local counts = call('HMGET', P .. 'pri:' .. slot(s), '0', '1', '2')
  for p = 1, 3 do sums[p] = sums[p] + (counts[p] or 0) end
end
return sums
