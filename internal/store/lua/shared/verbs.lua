-- What may happen to a job when its lease ends, or by its id; settle.lua says which verb does what. Each returns
-- what the job is now, '' when nothing was done, and when it is due or its lease ends.
local ATTEMPTS = 20 -- that a job's list keeps
local verbs = {}

-- Appends an attempt to a job's list.
local function attempt(topic, id, line)
  local key = P .. 'a:' .. topic .. '/' .. id
  if line ~= '' and call('RPUSH', key, line) > ATTEMPTS then call('LTRIM', key, -ATTEMPTS, -1) end
end

-- Makes a job wait for ms, or (nil) before the other jobs of its priority. Returns what it is now, and when it is due.
local function delay(topic, id, job, ms)
  job.state = 'waiting'
  if ms then set(job, 'next', text(now + ms)) end
  write(topic, id, job)
  local at = nextOf(job)
  local first = not ms and head(P .. 'w:' .. job.priority .. ':' .. topic)
  file(topic, id, job, ms and micros + 1000 * ms or math.min(1000 * at, (first or math.huge) - 1), true)
  return 'waiting', at
end

function verbs.done(topic, id, job, _, _, line, result)
  if job.state == 'running' then return accept(topic, id, job, line, result), now end
  delete(topic, id, job)
  return 'gone', now
end

-- Counts the failed attempt of a job, and takes the job out of its set.
local function failed(topic, id, job, line)
  takeOut(topic, id, job)
  job.attempts = job.attempts + 1
  set(job, 'snoozes', nil)
  attempt(topic, id, line)
  count(topic, 'failed', 1)
end

-- Whether a job has no attempt left when this one has failed.
local function isLast(topic, job)
  local max = tonumber(get(job, 'max')) or settings(topic).max
  return max > 0 and job.attempts + 1 >= max
end

function verbs.bury(topic, id, job, _, reason, line)
  failed(topic, id, job, line)
  die(topic, id, job, reason)
  return 'dead', now
end

function verbs.retry(topic, id, job, ms, _, line)
  failed(topic, id, job, line)
  count(topic, 'retried', 1)
  return delay(topic, id, job, ms)
end

function verbs.fail(topic, id, job, ms, reason, line)
  if isLast(topic, job) then return verbs.bury(topic, id, job, ms, reason, line) end
  local waits = {}
  for wait in string.gmatch(get(job, 'retry') or '', '%d+') do waits[#waits + 1] = tonumber(wait) end
  return verbs.retry(topic, id, job, waits[math.min(#waits, job.attempts + 1)] or ms, reason, line)
end

function verbs.lapse(topic, id, job, ms, reason, line)
  if tonumber(call('ZSCORE', P .. 'l:' .. topic, id) or 0) > now then return '' end
  return verbs[isLast(topic, job) and 'bury' or 'retry'](topic, id, job, 0, reason, line)
end

-- Deletes a job whose group was cancelled while it ran, instead of letting it wait again or die.
local function withdraw(topic, id, job, verb)
  if verb == 'lapse' and tonumber(call('ZSCORE', P .. 'l:' .. topic, id) or 0) > now then return '' end
  delete(topic, id, job)
  return 'gone', now
end

function verbs.snooze(topic, id, job, ms, _, line)
  takeOut(topic, id, job)
  set(job, 'snoozes', (get(job, 'snoozes') or 0) + 1)
  attempt(topic, id, line)
  count(topic, 'snoozed', 1)
  return delay(topic, id, job, ms)
end

-- A dead job keeps its attempts, as in older protocols, and gets one more line, which says why it was released.
function verbs.release(topic, id, job, ms, _, line)
  local was, attempts = job.state, job.attempts
  if was == 'dead' and closed(get(job, 'group'), topic) then return '' end
  takeOut(topic, id, job)
  if was == 'dead' then
    redrive(topic, id, job)
    job.attempts = attempts
    if line ~= '' then set(job, 'tried', 1) end
    attempt(topic, id, line)
  end
  if not ms and nextOf(job) > now then ms = 0 end -- it was taken early, by its id
  return delay(topic, id, job, ms)
end

function verbs.expire(topic, id, job, _, reason)
  if job.state == 'waiting' and (tonumber(get(job, 'expires')) or math.huge) > now then return '' end
  takeOut(topic, id, job)
  return expire(topic, id, job, reason ~= '' and reason or nil), now
end

function verbs.extend(topic, id, job, ms)
  local ends = now + (ms or tonumber(get(job, 'ttr')) or settings(topic).ttr)
  call('ZADD', P .. 'l:' .. topic, text(ends), id)
  event(topic, ends)
  return 'running', ends
end
