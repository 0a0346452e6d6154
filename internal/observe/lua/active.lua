#!lua flags=no-writes
-- Lists the topics whose jobs had an event lately, the longest ago first. A new event moves its topic behind all
-- others, so a caller that continues from the last time misses none.
-- KEYS[1] the bucket's prefix.
-- ARGV    how many ms back; the time to continue from, '' in the first call; how many topics of that time to skip; how
--         many topics at most.
-- Returns the time of the last topic, '' for none; then topics.
-- Keeps   it writes nothing.
local from = ARGV[2] ~= '' and ARGV[2] or text(now - ARGV[1] - 1000)
local list = call('ZRANGE', P .. 'act', from, '+inf', 'BYSCORE', 'LIMIT', ARGV[3], ARGV[4], 'WITHSCORES')
local out = {list[#list] or ''}
for i = 1, #list, 2 do out[#out + 1] = list[i] end
return out
