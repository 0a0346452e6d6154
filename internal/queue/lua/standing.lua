#!lua flags=no-writes
-- With: record, topic, order.
-- Reads what a waiting job may wait for: its place among the due jobs of its topic, and what the topic's limits allow.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, id.
-- Returns nothing if the job does not wait, else: due jobs that are taken before it; the topic's running jobs, and how
--         many it may have on this shard (0: no limit); when its rate allows the next job, in ms (0: the rate does not
--         hold it up); the window, failures in a row, and until when its breaker is open, in ms (0: it is closed).
-- Keeps   it writes nothing.
local PACED = 1000 -- a dispatcher may be so late for a turn that the rate allows
local topic, id = ARGV[1], ARGV[2]
local job = find(topic, id)
if not job or job.state ~= 'waiting' then return {} end
local ahead
if get(job, 'order') then
  ahead = call('ZRANK', P .. 'o:' .. topic, seat(id))
else
  ahead = call('ZRANK', P .. 'w:' .. job.priority .. ':' .. topic, id)
end
local s, paced = settings(topic), 0
if s.rate > 0 and s.tat + math.min(1000 / s.rate, PACED) > now then paced = math.max(now, math.ceil(s.tat)) end
return {ahead or 0, call('ZCARD', P .. 'l:' .. topic), s.flight, paced, s.window, s.fails, s.open}
