-- Makes jobs dead, or due again.

-- Makes a job dead that is in no set; at is when it died, in µs (nil: now).
local function die(topic, id, job, reason, at)
  if job.state ~= 'dead' then weigh(job, -1) end
  job.state = 'dead'
  set(job, 'reason', reason)
  write(topic, id, job)
  call('ZADD', P .. 'dead:' .. topic, at or micros, id)
  count(topic, 'died', 1)
  noteOccurrence(topic, id, job, 'dead')
  tell(topic, id, job)
end

-- Makes a dead job that is in no set due now, with attempts 0.
local function redrive(topic, id, job)
  if tried(job) then set(job, 'tried', 1) end
  job.state, job.attempts, job.due = 'waiting', 0, text(now)
  weigh(job, 1)
  for _, name in ipairs({'reason', 'expires', 'next', 'snoozes'}) do set(job, name, nil) end
  noteOccurrence(topic, id, job, 'ready')
  count(topic, 'redriven', 1)
end

-- Ends a waiting job that is in no set and has expired. Returns what it is now.
local function expire(topic, id, job, reason)
  leaveKey(topic, id, job)
  if settings(topic).drop then
    clear(topic, id, job)
    erase(topic, id)
    count(topic, 'deleted', 1)
    noteOccurrence(topic, id, job, 'expired')
    return 'gone'
  end
  die(topic, id, job, reason or 'expired')
  count(topic, 'expired', 1)
  return 'dead'
end

-- A damaged record becomes the body of a dead job, so that people see it, unless the body has a key of its own.
local function setAside(topic, id, record)
  local more = ' reason=corrupt'
  leaveDamaged(topic, id, record)
  if call('EXISTS', P .. 'b:' .. topic .. '/' .. id) == 1 then more = more .. ' long=1' end
  if call('EXISTS', P .. 'a:' .. topic .. '/' .. id) == 1 then more = more .. ' tried=1' end
  call('HSET', P .. 'j:' .. topic, id, string.format('dead normal %d %d 0 0%s\n', now, now, more) .. record)
  call('ZADD', P .. 'dead:' .. topic, micros, id)
  count(topic, 'died', 1)
end
