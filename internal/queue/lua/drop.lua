#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit.
-- Deletes the jobs of a topic in every state, a step at a time.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, cursor ('0' in the first step), about how many jobs, revision of the first step ('0' in the first
--         step, '' to take none), highest revision of deleted jobs ('' any).
-- Returns {cursor ('0' at the end), how many were deleted, 1 when one of them was running (see delete.lua), revision of
--         this step, then id and creation in ms of each deleted job that is newer than the first step}.
-- Keeps   jobs that are pushed meanwhile may stay. So the journal gets the first step as the deletion of all jobs of
--         the topic up to its revision, and each newer job that a later step deletes by itself.
local topic, first, most = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5]) or math.huge
local page = call('HSCAN', P .. 'j:' .. topic, ARGV[2], 'COUNT', ARGV[3])
local out = {page[1], 0, 0, first and call('INCR', P .. 'rev') or 0}

local function drop(id, job)
  if first and first > 0 and tonumber(job.revision) > first then out[#out + 1], out[#out + 2] = id, job.created end
  if job.state == 'done' then return remove(topic, id, job) end
  if job.state == 'running' then out[3] = 1 end
  out[2] = out[2] + 1
  delete(topic, id, job)
end

for i = 1, #page[2], 2 do
  local id, job = page[2][i], parse(page[2][i + 1])
  if not job then
    discard(topic, id)
  elseif tonumber(job.revision) <= most then
    drop(id, job)
  end
end
if run.before ~= '' and first == 0 then call('HSET', P .. 'rv', topic, run.before) end -- see override
return out
