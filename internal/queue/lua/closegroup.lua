#!lua flags=allow-oom
-- With: record, group.
-- Closes a group for jobs of some topics.
-- KEYS[1] the bucket's prefix.
-- ARGV    group, topic patterns, until when ('+ms' from now, or 'ms').
-- Returns {until when in ms, revision}.
-- Keeps   who closes a group again for a shorter time does not open it earlier.
local ends = tonumber(ARGV[3]) + (string.sub(ARGV[3], 1, 1) == '+' and now or 0)
return {close(ARGV[1], ARGV[2], ends), call('INCR', P .. 'rev')}
