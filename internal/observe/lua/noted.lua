#!lua
-- Reads what note.lua stored, or (clear) removes the errors of a topic.
-- KEYS[1] the bucket's prefix.
-- ARGV    'log', topic, limit | 'err', topic | 'clear', topic | 'lat', slots back, topics ('' for all together) |
--         'pri', slots back.
-- Returns log: JSON texts, newest first; err: fingerprints and "count first last example"; clear: 1; lat: for each
--         topic the buckets of each slot, each followed by its count; pri: three counts.
-- Keeps   all invariants: no other script uses the notes.
local what = ARGV[1]
if what == 'log' then return call('LRANGE', P .. 'log:' .. ARGV[2], 0, ARGV[3] - 1) end
if what == 'err' then return call('HGETALL', P .. 'err:' .. ARGV[2]) end
if what == 'clear' then return call('DEL', P .. 'err:' .. ARGV[2]) end
local last = math.floor(now / 10000)
if what == 'lat' then
  local topics, lists = {unpack(ARGV, 3)}, {}
  for i = 1, #topics do lists[i] = {} end
  for s = last - ARGV[2], last do
    for i, packed in ipairs(call('HMGET', P .. 'lat:' .. s, unpack(topics))) do
      local list = lists[i]
      for number in string.gmatch(packed or '', '%S+') do list[#list + 1] = tonumber(number) end
    end
  end
  return lists
end
local sums = {0, 0, 0}
for s = last - ARGV[2], last do
  local counts = call('HMGET', P .. 'pri:' .. s, '0', '1', '2')
  for p = 1, 3 do sums[p] = sums[p] + (counts[p] or 0) end
end
return sums
