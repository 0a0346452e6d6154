#!lua flags=no-writes
-- With: record, topic, order.
-- Reads what the limits of topics allow, and the place of a waiting job among the due jobs of its topic.
-- KEYS[1] the bucket's prefix.
-- ARGV    id of a job of the first topic ('' none), then topics.
-- Returns how many due jobs are taken before the job (-1: no such job waits, -2: others of its key go first), then six
--         for each topic: its window, failures in a row, until when its breaker is open, in ms (0: it is closed),
--         running jobs, how many it may have on this shard (0: no limit), when its rate allows the next job, in ms (0:
--         the rate holds none up).
-- Keeps   it writes nothing.
local PACED = 1000 -- a dispatcher may be so late for a turn that the rate allows

local function placeOf(topic, id)
  local job = find(topic, id)
  if not job or job.state ~= 'waiting' then return -1 end
  if call('ZSCORE', P .. 'h:' .. topic, id) then return -2 end
  if get(job, 'order') then return call('ZRANK', P .. 'o:' .. topic, seat(id)) or 0 end
  return call('ZRANK', P .. 'w:' .. job.priority .. ':' .. topic, id) or 0
end

local out = {ARGV[1] ~= '' and placeOf(ARGV[2], ARGV[1]) or -1}
for i = 2, #ARGV do
  local s, paced, n = settings(ARGV[i]), 0, #out
  if s.rate > 0 and s.tat + math.min(1000 / s.rate, PACED) > now then paced = math.max(now, math.ceil(s.tat)) end
  out[n + 1], out[n + 2], out[n + 3] = s.window, s.fails, s.open
  out[n + 4], out[n + 5], out[n + 6] = call('ZCARD', P .. 'l:' .. ARGV[i]), s.flight, paced
end
return out
