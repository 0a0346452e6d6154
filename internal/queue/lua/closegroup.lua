#!lua flags=allow-oom
-- With: record, group.
-- Closes a group for jobs of some topics, or opens it again.
-- KEYS[1] the bucket's prefix.
-- ARGV    group, topic patterns, for how many ms (0 to open it).
-- Returns {until when in ms, revision}.
-- Keeps   who closes a group again for a shorter time does not open it earlier.
local group, patterns, ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local ends = now
if ms == 0 then call('HDEL', P .. 'x:' .. group, patterns) else ends = close(group, patterns, now + ms) end
return {ends, call('INCR', P .. 'rev')}
