#!lua
-- With: record, topic, totals, order, key, wait, group, quota, occurrence, remove, admit, dead, describe.
-- Changes a waiting job, or makes a job due now.
-- KEYS[1] the bucket's prefix.
-- ARGV    topic, id, allowed etags (see matches), 'change' or 'run', then for a change: due time ('' unchanged, '+ms'
--         from now, or 'ms'), priority ('' unchanged), '1' with a new body, that body, its own url ('' unchanged, '-'
--         none).
-- Returns {now in µs, revision (0 when nothing was changed), 'none' (no such job), 'running', 'dead', 'other' (other
--         etag), 'closed' (a job of a closed group, to be made due), 'expires' (it would expire
--         before it is due) or the description of the job as it is now}. A run of a ready or running job has a
--         revision, too: the same call may have made it due before, and its answer was lost. For a running job it is
--         the reservation's.
-- Keeps   a changed job keeps its attempts and its creation time.
local LONG = 448
local topic, id, dueNow, when = ARGV[1], ARGV[2], ARGV[4] == 'run', ARGV[5]
local job = find(topic, id)
if not job or job.state == 'done' then return {micros, 0, 'none'} end
if not matches(ARGV[3], job) then return {micros, 0, 'other'} end
if dueNow and closed(get(job, 'group'), topic) then return {micros, 0, 'closed'} end
if job.state == 'running' then
  if not dueNow then return {micros, 0, 'running'} end
  return {micros, tonumber(job.revision), describe(topic, id, job, true)}
end
if job.state == 'dead' and not dueNow then return {micros, 0, 'dead'} end
local due, expires = nil, tonumber(get(job, 'expires'))
if not dueNow and when ~= '' then
  due = instant(when)
  if expires and due >= 1000 * expires then return {micros, 0, 'expires'} end
end

local function setBody(body)
  if get(job, 'long') then call('UNLINK', P .. 'b:' .. topic .. '/' .. id) end
  local long = #job.more + #body > LONG
  set(job, 'long', long and 1 or nil)
  if long then call('SET', P .. 'b:' .. topic .. '/' .. id, body) end
  job.body = '\n' .. (long and '' or body)
end

local at, was = nextOf(job) * 1000, job.state
local changed = not dueNow or was == 'dead' or at > DUE
if changed then takeOut(topic, id, job) end
job.revision = text(call('INCR', P .. 'rev'))
if was == 'dead' then redrive(topic, id, job) end
if dueNow and changed then due = micros end
if due then
  at = due
  job.due = text(math.floor(at / 1000))
  set(job, 'next', nil)
end
if not dueNow then
  if ARGV[6] ~= '' then job.priority = ARGV[6] end
  local url, body = ARGV[9], ARGV[7] == '1' and ARGV[8]
  if url ~= '' then
    set(job, 'url', url ~= '-' and url or nil)
    if not body and not get(job, 'long') then body = string.sub(job.body, 2) end -- may be too long with the pairs
  end
  if body then setBody(body) end
end
write(topic, id, job)
if changed then file(topic, id, job, at) end
return {micros, tonumber(job.revision), describe(topic, id, job, true)}
