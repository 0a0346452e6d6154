#!lua flags=allow-oom
-- With: record, topic, totals, order, wait.
-- Postpones jobs of a topic that have been ready for long, so that they can be moved to another shard.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, how many, what counts as long in ms, by how much in ms.
-- Returns how many.
-- Keeps   a postponed job stays in w, or held by its key.
local topic, limit, long, off, n = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), 0
for _, of in ipairs({'w:high:', 'w:normal:', 'w:low:', 'h:'}) do
  local w = P .. of .. topic
  for _, id in ipairs(call('ZRANGE', w, '-inf', micros - 1000 * long, 'BYSCORE', 'LIMIT', 0, limit - n)) do
    local job = find(topic, id)
    if job then
      set(job, 'next', text(now + off))
      write(topic, id, job)
      call('ZADD', w, micros + 1000 * off + n, id)
      if of ~= 'h:' then order(topic, id, job, micros + 1000 * off + n) end
      n = n + 1
    end
  end
end
if n > 0 then event(topic, now + off) end
return n
