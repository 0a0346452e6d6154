#!lua flags=allow-oom
-- With: record, group.
-- Closes groups for jobs of some topics.
-- KEYS[1] the bucket's prefix.
-- ARGV    three for each: group, topic patterns, until when ('+ms' from now, or 'ms').
-- Returns {until when the last is closed in ms, revision}.
-- Keeps   who closes a group again for a shorter time does not open it earlier.
local ends
for i = 1, #ARGV, 3 do
  ends = close(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]) + (string.sub(ARGV[i + 2], 1, 1) == '+' and now or 0))
end
return {ends, call('INCR', P .. 'rev')}
