-- What replaying a line of a journal does, see replay.lua.
-- rv has, as JSON, the last line that ended each id, and for each topic the revision at which it was cleared. While
-- hosts are absent, scripts add to it (remove.lua).
local mode, dry = ARGV[1], ARGV[3] == '1'
local ENDED = {delivered = 'done', died = 'dead', deleted = 'deleted'} -- an occurrence, by kind
run.after = 0
local RV = P .. 'rv'

-- Returns the last line that ended a job with the line's id; its revision is 0 when there is none.
local function endOf(line)
  local known = call('HGET', RV, line.topic .. '/' .. line.id)
  return known and cjson.decode(known) or {revision = 0}
end

local function setAttempts(topic, id, job, attempts)
  local key = P .. 'a:' .. topic .. '/' .. id
  call('UNLINK', key)
  job.attempts = #attempts
  if job.attempts > 0 then call('RPUSH', key, unpack(attempts)) end
end

local function stored(line)
  local topic, id = line.topic, line.id
  local job, new = find(topic, id), parse(line.record)
  local last = endOf(line)
  local newest = job and job.revision or mode == 'compare' and run.after or 0
  local gone = math.max(call('HGET', RV, topic) or 0, cancelledUpTo(get(new, 'group'), topic))
  if line.revision <= math.max(newest, gone) then return '' end
  -- A later job of this id that died: then this one had ended before it was pushed.
  local ended = last.revision >= line.revision
  if ended and (last.kind ~= 'died' or last.created ~= new.created) then return '' end
  if line.kind == 'adopted' and job then return '' end
  local live = job and job.state ~= 'done'
  if dry then return live and 'replaced' or 'stored' end
  -- From a shard that is no longer in use: its revisions say nothing here.
  if line.kind == 'adopted' then line.revision = call('INCR', P .. 'rev') end
  if live and job.created == new.created and line.died == '' then
    takeOut(topic, id, job) -- a change of the job, which keeps its attempts
    if job.state ~= 'dead' then weigh(job, -1) end
    if get(job, 'long') then call('UNLINK', P .. 'b:' .. topic .. '/' .. id) end
    set(new, 'tried', tried(job) and 1 or nil)
    if job.state ~= 'dead' then new.attempts = math.max(job.attempts, new.attempts) end
  elseif job then
    remove(topic, id, job)
  end
  if not (live and job.created == new.created) or line.attempts[1] then
    local made = new.attempts -- there may be more than the list has
    setAttempts(topic, id, new, line.attempts)
    new.attempts = math.max(made, new.attempts)
  end
  if live then count(topic, 'replaced', 1) end
  new.revision = text(line.revision)
  if ended then setAttempts(topic, id, new, last.attempts) end
  local death = ended and last or line
  copy(topic, id, new, line.long, death.died, death.reason)
  return live and 'replaced' or 'stored'
end

-- Restores the result of a delivered job that somebody waited for, if the job would still have it.
local function restoreAnswer(line)
  local left = line.long ~= '' and line.died + ANSWERED - now or 0
  if dry or left <= 0 then return end
  local last = line.attempts[1] or '{"n":1,"started_at":' .. line.died .. ',"took_ms":0}'
  local record = string.format('done normal %s %s %s %d await=1 bodygone=1\n', line.created, line.created,
    string.match(last, '"n":(%d+)'), line.revision)
  call('SADD', P .. 'topics', line.topic)
  keepAnswer(line.topic, line.id, parse(record), last, line.long, left)
end

-- Replays the end of a job. The line of a delivery has the revision of its reservation, so it removes the job unless
-- something happened to it since. The death of a later job of the same id removes it, too.
local function replayEnd(line)
  local ended = endOf(line).revision
  if ended > line.revision then return '' end
  if not dry and mode ~= 'hand' and ended < line.revision then
    call('HSET', RV, line.topic .. '/' .. line.id, cjson.encode(line))
  end
  local job = find(line.topic, line.id)
  if not job and not dry and line.record ~= '' then
    noteOccurrence(line.topic, line.id, {more = ' sched=' .. line.record}, ENDED[line.kind])
  end
  if not job then restoreAnswer(line) end
  if not job or job.state == 'done' or tonumber(job.revision) > line.revision then return '' end
  local dies = line.kind == 'died' and job.created == line.created
  if dies and job.state == 'dead' then return '' end
  if dry then return dies and 'buried' or 'removed' end
  if dies then
    takeOut(line.topic, line.id, job)
    -- Otherwise it keeps the revision of its content: the line of a newer one may come from another host.
    if mode == 'hand' then job.revision = text(line.revision) end
    setAttempts(line.topic, line.id, job, line.attempts)
    die(line.topic, line.id, job, line.reason, line.died * 1000)
    return 'buried'
  end
  remove(line.topic, line.id, job)
  noteOccurrence(line.topic, line.id, job, ENDED[line.kind] or 'deleted')
  restoreAnswer(line)
  count(line.topic, job.state == 'dead' and 'dropped' or line.kind == 'delivered' and 'delivered' or 'deleted', 1)
  return 'removed'
end

local function cleared(line)
  local revision = math.max(line.revision, call('HGET', RV, line.topic) or 0)
  if not dry then call('HSET', RV, line.topic, text(revision)) end
  return ''
end

-- Lines about groups have the topic patterns as their topic, and the group as their id.
local function cancelled(line)
  if not dry then noteCancelled(line.id, line.topic, line.revision) end
  return ''
end

local function groupClosed(line)
  local ends = tonumber(line.died)
  if not dry and ends > now then close(line.id, line.topic, ends) end
  return ''
end

local kinds = {stored = stored, adopted = stored, deleted = replayEnd, delivered = replayEnd, died = replayEnd,
  cleared = cleared, cancelled = cancelled, closed = groupClosed}
