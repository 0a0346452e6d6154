-- Schedules. s:NAME has a schedule's state in its shard: topic; rev, the revision of its definition; at, the cursor:
-- all occurrences up to it (ms) are decided; last, the last ten as JSON; how many were left out, by reason; revision,
-- of the last change. An occurrence's job has the pairs sched (the schedule) and for (its nominal time in ms).
local NEWEST = 10 -- in last

local function lastOf(key) return cjson.decode(call('HGET', key, 'last') or '[]') end

local function setLast(key, last)
  while #last > NEWEST do table.remove(last, 1) end
  call('HSET', key, 'last', #last > 0 and cjson.encode(last) or '[]')
end

-- What journals need of a schedule: its newest occurrence as JSON, '' without one; how many were left out, by reason.
local function noted(key, last)
  local out = call('HMGET', key, 'late', 'overlap', 'paused', 'limit', 'edited')
  table.insert(out, 1, last[1] and cjson.encode(last[#last]) or '')
  return out
end

local function leaveOut(key, reason, n)
  if n > 0 then call('HINCRBY', key, reason, n) end
end

-- Notes in its schedule how an occurrence ended, or that it waits again.
local function noteOccurrence(topic, id, job, state)
  local name = get(job, 'sched')
  local key = name and P .. 's:' .. name
  if not key or call('HGET', key, 'topic') ~= topic then return end
  local last = lastOf(key)
  for _, one in ipairs(last) do
    if one.id == id then one.state = state end
  end
  setLast(key, last)
end
