-- Takes jobs out of the sets of their state, and removes them.

-- Counts an id that stays in the list of its minute although its job was changed or removed. A list that mostly has
-- such ids is opened early.
local function stale(topic, at)
  local minute, key = math.floor(at / MINUTE), P .. 'z:' .. topic
  local n = call('HINCRBY', key, minute, 1)
  if n > 1000 and 2 * n > call('LLEN', P .. 'f:' .. topic .. ':' .. minute) then
    call('ZADD', P .. 'm:' .. topic, 'XX', 0, minute)
    event(topic, now)
  end
end

-- Counts n jobs fewer in fin:TOPIC, which the caller has removed.
local function leaveFinished(topic, n)
  if n > 0 and call('ZSCORE', P .. 'fins', topic) then call('DECRBY', P .. 'fin', n) end
  if call('EXISTS', P .. 'fin:' .. topic) == 1 then return end
  call('ZREM', P .. 'fins', topic)
  call('ZREM', P .. 'finh', topic)
end

local function takeOut(topic, id, job)
  if job.state == 'running' then
    if job.more ~= '' then leaveKey(topic, id, job) end
    call('ZREM', P .. 'l:' .. topic, id)
    set(job, 'token', nil)
  elseif job.state == 'dead' then
    call('ZREM', P .. 'dead:' .. topic, id)
  elseif job.state == 'done' then
    leaveFinished(topic, call('ZREM', P .. 'fin:' .. topic, id))
    if get(job, 'await') then call('UNLINK', P .. 'r:' .. topic .. '/' .. id) end
  else
    if get(job, 'expires') then call('ZREM', P .. 'e:' .. topic, id) end
    if get(job, 'order') then leaveOrder(topic, id) end
    local keyed = job.more ~= '' and leaveKey(topic, id, job)
    if call('ZREM', P .. 'w:' .. job.priority .. ':' .. topic, id) == 0 and not keyed then stale(topic, nextOf(job)) end
  end
end

-- A topic without jobs leaves nothing but its settings and totals, once wake.lua has removed its lists of minutes.
local function tidy(topic)
  if call('EXISTS', P .. 'j:' .. topic) == 1 then return end
  call('SREM', P .. 'topics', topic)
  if call('EXISTS', P .. 'm:' .. topic) == 1 then
    event(topic, now) -- wake.lua removes the lists of minutes
  else
    call('ZREM', P .. 'next', topic)
    run.known[topic] = nil
  end
  local s = settings(topic)
  if s.own then return end
  call('UNLINK', P .. 'c:' .. topic)
  s.order = nil
end

-- Removes the record of a job that is in no set.
local function erase(topic, id)
  call('HDEL', P .. 'j:' .. topic, id)
  tidy(topic)
end

-- Removes a damaged record, from which nobody can tell where its job is.
local function discard(topic, id)
  leaveDamaged(topic, id, call('HGET', P .. 'j:' .. topic, id) or '')
  for _, index in ipairs({'w:high:', 'w:normal:', 'w:low:', 'e:', 'l:', 'dead:'}) do
    call('ZREM', P .. index .. topic, id)
  end
  if settings(topic).order then leaveOrder(topic, id) end
  leaveFinished(topic, call('ZREM', P .. 'fin:' .. topic, id))
  call('UNLINK', P .. 'b:' .. topic .. '/' .. id, P .. 'a:' .. topic .. '/' .. id)
  erase(topic, id)
end

-- While hosts are absent, no line of their journals may bring a job back that ended or was replaced (see replay.lua).
local function override(topic, id)
  call('HSET', P .. 'rv', topic .. '/' .. id, string.format('{"revision":%s,"kind":"deleted"}', run.before))
end

-- Tells servers that somebody who waits for a job, see the pair await, should read it: it ended, or is gone.
local function tell(topic, id, job)
  if get(job, 'await') then call('PUBLISH', P .. 'ended', topic .. '/' .. id) end
end

-- Removes the keys of a job besides its record. Absent hosts may know it if it was created before the bucket was
-- opened, at about run.before / RATE (see attend.lua); push.lua overrides what newer jobs replace.
local function clear(topic, id, job)
  if run.before == '' and job.more == '' and job.attempts == '0' then return end -- most jobs
  if run.before ~= '' and job.created - 60000 <= EPOCH + run.before / RATE then override(topic, id) end
  if get(job, 'long') then call('UNLINK', P .. 'b:' .. topic .. '/' .. id) end
  if tried(job) then call('UNLINK', P .. 'a:' .. topic .. '/' .. id) end
  leaveGroup(topic, id, job)
  tell(topic, id, job)
  if job.state ~= 'dead' and job.state ~= 'done' then weigh(job, -1) end
end

local function remove(topic, id, job)
  takeOut(topic, id, job)
  if job.state == 'running' then -- the topic, or workers, may have waited for its place
    call('HDEL', P .. 'c:' .. topic, 'until')
    event(topic, now)
  end
  clear(topic, id, job)
  erase(topic, id)
end

-- Removes a job because somebody wants it gone.
local function delete(topic, id, job)
  remove(topic, id, job)
  noteOccurrence(topic, id, job, 'deleted')
  count(topic, job.state == 'dead' and 'dropped' or 'deleted', 1)
end
