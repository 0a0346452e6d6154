#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, dead, describe.
-- Redrives dead jobs, with attempts 0 and due now, or deletes them.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, 'retry' or 'delete', limit (of the oldest; 0 with ids), attempts ('' unchanged) and time to live in ms
--         ('' none) of redriven jobs, then ids.
-- Returns {now in µs, revision of the first, then for each its description, as it is now or was before it was deleted}.
-- Keeps   ids of jobs that are not dead are skipped, and jobs of a closed group are not redriven.
local topic, retry, limit, max, ttl = ARGV[1], ARGV[2] == 'retry', tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local ids = limit > 0 and call('ZRANGE', P .. 'dead:' .. topic, 0, limit - 1) or {unpack(ARGV, 6)}
local out, revision = {micros, 0}, tonumber(call('GET', P .. 'rev') or 0)
for i, id in ipairs(ids) do
  local job = find(topic, id)
  if not job then
    call('ZREM', P .. 'dead:' .. topic, id)
  elseif job.state == 'dead' and not (retry and closed(get(job, 'group'), topic)) then
    revision = revision + 1
    if retry then
      takeOut(topic, id, job)
      redrive(topic, id, job)
      job.revision = text(revision)
      if max ~= '' then set(job, 'max', max ~= '0' and max or nil) end
      if ttl then set(job, 'expires', text(now + ttl)) end
      write(topic, id, job)
      file(topic, id, job, micros + i)
    else
      delete(topic, id, job)
    end
    out[#out + 1] = describe(topic, id, job, retry)
  end
end
if #out > 2 then out[2] = call('INCRBY', P .. 'rev', #out - 2) - #out + 3 end
return out
