#!lua
-- Reads what note.lua stored, or (clear) removes the errors of a topic.
-- KEYS[1] the bucket's prefix.
-- ARGV    'log', topic, limit | 'err', topic | 'clear', topic | 'lat', topic ('' for all), slots back, buckets |
--         'pri', slots back.
-- Returns log: JSON texts, newest first; err: fingerprints and "count first last example"; clear: 1; lat: a count for
--         each bucket; pri: three counts.
-- Keeps   all invariants: notes are nobody else's.
local what = ARGV[1]
if what == 'log' then return call('LRANGE', P .. 'log:' .. ARGV[2], 0, ARGV[3] - 1) end
if what == 'err' then return call('HGETALL', P .. 'err:' .. ARGV[2]) end
if what == 'clear' then return call('DEL', P .. 'err:' .. ARGV[2]) end
local slot = floor(now / 10000)
local names, back, prefix = {}, ARGV[2], 'pri:'
if what == 'lat' then
  back, prefix = ARGV[3], 'lat:'
  for b = 0, ARGV[4] - 1 do names[#names + 1] = ARGV[2] .. ' ' .. b end
else
  names = {'0', '1', '2'}
end
local sums = {}
for b = 1, #names do sums[b] = 0 end
for s = slot - back, slot do
  local counts = call('HMGET', P .. prefix .. string.format('%d', s), unpack(names))
  for b = 1, #names do sums[b] = sums[b] + (counts[b] or 0) end
end
return sums
