#!lua flags=no-writes
-- With: record, stats.
-- Counts the jobs of topics, and reads their totals, at one instant.
-- KEYS[1] the bucket's prefix.
-- ARGV    '1' with totals, then topics.
-- Returns {now in µs, then for each topic: counts as statsOf returns them; t:TOPIC as names and values, or ''}.
-- Keeps   it writes nothing.
local out = {micros}
for i = 2, #ARGV do
  out[#out + 1] = statsOf(ARGV[i]) or {0, 0, 0, 0, 0, 0}
  out[#out + 1] = ARGV[1] == '1' and call('HGETALL', P .. 't:' .. ARGV[i]) or ''
end
return out
