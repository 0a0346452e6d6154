#!lua flags=no-writes
-- Reads the totals of topics, and counts their jobs, at one instant.
-- KEYS[1] the bucket's prefix.
-- ARGV    topics.
-- Returns the number of today (days since 1970, UTC), then for each topic: the answer of statsOf; t:TOPIC as names and
--         values.
-- Keeps   all invariants: it reads.
local out, keys = {floor(now / 86400000)}, {}
for k, topic in ipairs(ARGV) do keys[k] = P .. 't:' .. topic end
local some = call('EXISTS', unpack(keys)) > 0 -- often no topic ever had a job
for k, counts in ipairs(statsOf(ARGV)) do
  out[2 * k], out[2 * k + 1] = counts, some and call('HGETALL', keys[k]) or {}
end
return out
