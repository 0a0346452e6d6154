#!lua flags=no-writes
-- Counts jobs.
-- KEYS[1] the bucket's prefix.
-- ARGV    topics.
-- Returns five a topic: delayed, ready, running, dead, ms since the oldest ready job fell due.
-- Keeps   all invariants: it reads.
local out = {}
local byState = {}
for i, key in ipairs({'nd', 'nr', 'nu', 'nx'}) do byState[i] = call('HMGET', P .. key, unpack(ARGV)) end
for k, topic in ipairs(ARGV) do
  for i = 1, 4 do out[#out + 1] = math.max(0, tonumber(byState[i][k] or 0)) end
  out[#out + 1] = out[#out - 2] > 0 and oldestReady(topic) or 0
end
return out
