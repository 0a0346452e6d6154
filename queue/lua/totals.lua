#!lua flags=no-writes
-- Reads the totals of topics, and counts their jobs, at one instant.
-- KEYS[1] the bucket's prefix.
-- ARGV    topics.
-- Returns the number of today (days since 1970, UTC), then two a topic: what statsOf has of it; t:TOPIC as names and
--         values.
-- Keeps   all invariants: it reads.
local out, keys = {floor(now / 86400000)}, {}
for k, topic in ipairs(ARGV) do keys[k] = P .. 't:' .. topic end
local some = call('EXISTS', unpack(keys)) > 0 -- many topics never had a job
for k, counts in ipairs(statsOf(ARGV)) do
  out[2 * k], out[2 * k + 1] = counts, some and call('HGETALL', keys[k]) or {}
end
return out
