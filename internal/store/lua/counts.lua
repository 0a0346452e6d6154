#!lua flags=no-writes
-- With: record, topic, stats.
-- Counts the jobs of all topics that have any, some topics in each call.
-- KEYS[1] the bucket's prefix.
-- ARGV    cursor ('0' at first), about how many topics, beginning of their names, 'dead' for those with dead jobs only.
-- Returns {cursor ('0' at the end), then topic, the namespace whose settings it has, or '', and counts as statsOf
--         returns them, …}.
-- Keeps   it writes nothing. topics has every topic with jobs.
local page = call('SSCAN', P .. 'topics', ARGV[1], 'COUNT', ARGV[2])
local out = {page[1]}
for _, topic in ipairs(page[2]) do
  local wanted = string.sub(topic, 1, #ARGV[3]) == ARGV[3]
  if ARGV[4] == 'dead' then wanted = wanted and call('EXISTS', P .. 'dead:' .. topic) == 1 end
  local stats = wanted and statsOf(topic)
  local n = #out
  if stats then out[n + 1], out[n + 2], out[n + 3] = topic, settings(topic).namespace or '', stats end
end
return out
