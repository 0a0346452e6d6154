#!lua flags=allow-oom
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit.
-- Deletes the waiting and dead jobs of a group that belong to some topics, a step at a time. Running ones go on; one
-- that fails is deleted then, see settle.lua.
-- KEYS[1] the bucket's prefix.
-- ARGV    group, topic patterns, cursor ('0' in the first step), about how many jobs, name of the cancellation,
--         revision of the first step ('0' in the first step, '' to take none), highest revision of jobs that are
--         deleted ('' any).
-- Returns {cursor ('0' at the end), how many were deleted, how many run, revision of this step, then topic, id and
--         creation in ms of each deleted job that is newer than the first step}.
-- Keeps   as drop.lua: the journal gets the first step as the deletion of all these jobs up to its revision, and each
--         newer job that a later step deletes by itself.
local group, patterns, name, first = ARGV[1], ARGV[2], ARGV[5], tonumber(ARGV[6])
local most = tonumber(ARGV[7]) or math.huge
local out = {'0', 0, 0, first and call('INCR', P .. 'rev') or 0}

local totals = {} -- what delete would count, by topic

local function cancel(topic, id, job)
  if not job then return call('HDEL', P .. 'g:' .. group, topic .. '/' .. id) end
  if tonumber(job.revision) > most then return end
  if job.state == 'running' then
    if cancelRunning(topic, id, job, name) then out[3] = out[3] + 1 end
    return
  end
  if first and first > 0 and tonumber(job.revision) > first then
    out[#out + 1], out[#out + 2], out[#out + 3] = topic, id, job.created
  end
  out[2] = out[2] + 1
  local total = topic .. (job.state == 'dead' and ' dropped' or ' deleted')
  totals[total] = (totals[total] or 0) + 1
  remove(topic, id, job)
end

out[1] = visit(group, patterns, ARGV[3], ARGV[4], cancel)
for total, n in pairs(totals) do
  local topic, name = string.match(total, '^(.*) (%l+)$')
  count(topic, name, n)
end
if run.before ~= '' and first == 0 then noteCancelled(group, patterns, tonumber(run.before)) end
return out
