#!lua flags=allow-oom
-- With: record, topic, totals, order, wait, remove.
-- Deletes the jobs of a topic in every state, a step at a time.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, cursor ('0' at first), about how many jobs, '1' with a new revision, highest revision of deleted jobs
--         ('' any).
-- Returns {cursor ('0' at the end), how many were deleted, 1 when one of them was running (see delete.lua), revision}.
-- Keeps   jobs that are pushed meanwhile may stay.
local topic, most, deleted, running = ARGV[1], tonumber(ARGV[5]) or math.huge, 0, 0
local page = call('HSCAN', P .. 'j:' .. topic, ARGV[2], 'COUNT', ARGV[3])
for i = 1, #page[2], 2 do
  local id, job = page[2][i], parse(page[2][i + 1])
  if not job then
    discard(topic, id)
  elseif tonumber(job.revision) <= most then
    if job.state == 'running' then running = 1 end
    if job.state ~= 'done' then
      deleted = deleted + 1
      count(topic, job.state == 'dead' and 'dropped' or 'deleted', 1)
    end
    remove(topic, id, job)
  end
end
if before ~= '' and ARGV[4] == '1' then call('HSET', P .. 'rv', topic, before) end -- see override
return {page[1], deleted, running, ARGV[4] == '1' and call('INCR', P .. 'rev') or 0}
