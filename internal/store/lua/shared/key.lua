-- Jobs with a key, see the pair key, while the topic has the setting keyflight: at most so many of a key are called at
-- a time. k:TOPIC/KEY has the waiting and running jobs of a key by the microsecond of their due time. The admitted
-- ones, which run or are in w, have it negative; the others are held: they are in h:TOPIC by the microsecond from which
-- they might be called. What changes k notes the key, and at its end the script admits the next jobs, see admit.lua.

-- The names of keys that changed, TOPIC/KEY, as a list and as a set.
local function noteKey(topic, key)
  local name = topic .. '/' .. key
  run.keys = run.keys or {}
  if not run.keys[name] then run.keys[#run.keys + 1] = name end
  run.keys[name] = true
end

-- Returns a job's key, if its topic has the setting, and the topic's settings.
local function keyOf(topic, job)
  local key = get(job, 'key')
  if not key then return nil end
  local s = settings(topic)
  return s.keyflight and key, s
end

-- Holds a waiting job that is in no set, if it has a key. One that waits again keeps its place: it is before the jobs
-- of its due time. Returns whether it does.
local function hold(topic, id, job, at, again)
  local key, s = keyOf(topic, job)
  if not key then return false end
  local place = at
  if (again or get(job, 'next')) and not s.keyskip then place = 1000 * job.due - 1 end
  call('ZADD', P .. 'k:' .. topic .. '/' .. key, text(math.max(place, 1)), id)
  call('ZADD', P .. 'h:' .. topic, text(at), id)
  noteKey(topic, key)
  return true
end

-- Lets a job that is in no set be one of the admitted ones of its key, although these may be too many then.
local function intrude(topic, id, job)
  local key = keyOf(topic, job)
  if key then call('ZADD', P .. 'k:' .. topic .. '/' .. key, text(-math.max(1000 * job.due, 1)), id) end
end

-- Lets a job leave its key. After a call the key rests, as its rate says. Returns whether the key had the job.
local function leaveKey(topic, id, job)
  local key = get(job, 'key')
  if not key then return false end
  local rate = job.state == 'running' and settings(topic).keyrate
  if rate then
    local rest = math.ceil(1000 / rate)
    call('SET', P .. 'kt:' .. topic .. '/' .. key, text(now + rest), 'PX', rest)
  end
  call('ZREM', P .. 'h:' .. topic, id)
  noteKey(topic, key)
  return call('ZREM', P .. 'k:' .. topic .. '/' .. key, id) == 1
end

local OLDEST = 100
-- The same for a damaged record, from which the key may still be read. Otherwise it is one of those that hold up the
-- oldest jobs: admit.lua finds it.
local function leaveDamaged(topic, id, record)
  if not settings(topic).keyflight then return end
  local key = string.match(record, '^[^\n]* key=(%S+)')
  if key then leaveKey(topic, id, {state = 'dead', more = ' key=' .. key}) end
  for _, held in ipairs(key and {} or call('ZRANGE', P .. 'h:' .. topic, 0, OLDEST - 1)) do
    local job = find(topic, held)
    if job and get(job, 'key') then noteKey(topic, get(job, 'key')) end
  end
end
