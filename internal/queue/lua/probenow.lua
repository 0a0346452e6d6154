#!lua flags=allow-oom
-- With: topic, wait.
-- Lets an open breaker send its next probe now.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic.
-- Returns 1 if the breaker is open, 0 if it is closed.
-- Keeps   the breaker stays open, so one probe at a time is sent.
local topic = ARGV[1]
local s, key = settings(topic), P .. 'c:' .. ARGV[1]
if s.open == 0 then return 0 end
if s.open > now then call('HSET', key, 'open', text(now)) end
call('HDEL', key, 'until')
s['until'] = 0
offerDue(topic)
return 1
