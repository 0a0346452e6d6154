#!lua flags=no-writes
-- Reads the totals of topics, and counts their jobs, at one instant.
-- KEYS[1] the bucket's prefix.
-- ARGV    topics.
-- Returns the number of today (days since 1970, UTC), then two a topic: {delayed, ready, running, dead, ms since the
--         oldest ready job fell due}; t:TOPIC as names and values.
-- Keeps   all invariants: it reads.
local out = {floor(now / 86400000)}
local byState = {}
for i, key in ipairs({'nd', 'nr', 'nu', 'nx'}) do byState[i] = call('HMGET', P .. key, unpack(ARGV)) end
local keys = {}
for k, topic in ipairs(ARGV) do keys[k] = P .. 't:' .. topic end
local some = call('EXISTS', unpack(keys)) > 0 -- many topics never had a job
for k, topic in ipairs(ARGV) do
  local counts = {}
  for i = 1, 4 do counts[i] = math.max(0, tonumber(byState[i][k] or 0)) end
  counts[5] = counts[2] > 0 and oldestReady(topic) or 0
  out[#out + 1] = counts
  out[#out + 1] = some and call('HGETALL', keys[k]) or {}
end
return out
