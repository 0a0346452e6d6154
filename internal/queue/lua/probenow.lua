#!lua flags=allow-oom
-- With: record, topic, totals, order, wait.
-- Lets the open breaker of a topic send its next probe now.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic.
-- Returns 1 if the breaker is open, otherwise 0.
-- Keeps   still one probe at a time: gate.lua sends none while the topic has a running job.
local topic, key = ARGV[1], P .. 'c:' .. ARGV[1]
if settings(topic).open == 0 then return 0 end
call('HSET', key, 'open', now)
call('HDEL', key, 'until')
event(topic, now) -- wake.lua gives it its turn
return 1
