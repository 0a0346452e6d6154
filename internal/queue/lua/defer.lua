#!lua flags=allow-oom
-- With: record, topic, totals, order, wait.
-- Postpones ready jobs of a topic that no dispatcher takes, so that they can be moved to another shard: all jobs if the
-- topic is paused, its breaker is open or its jobs have had no event for long, otherwise those that have waited long
-- without an attempt.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many, what counts as long in ms, by how much in ms.
-- Returns how many.
-- Keeps   a postponed job stays in w.
local topic, limit, long, off, n = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), 0
local s = settings(topic)
local idle = s.paused or s.open > 0 or now - (call('ZSCORE', P .. 'act', topic) or 0) > long
for _, priority in ipairs(PRIORITIES) do
  local w = P .. 'w:' .. priority .. ':' .. topic
  for _, id in ipairs(call('ZRANGE', w, '-inf', micros - 1000 * long, 'BYSCORE', 'LIMIT', 0, limit - n)) do
    local job = find(topic, id)
    if job and (idle or job.attempts == '0') then
      set(job, 'next', text(now + off))
      write(topic, id, job)
      call('ZADD', w, micros + 1000 * off + n, id)
      order(topic, id, job, micros + 1000 * off + n)
      n = n + 1
    end
  end
  if n == limit then break end
end
if n > 0 then event(topic, now + off) end
return n
