-- Finished jobs stay in j:TOPIC while they are remembered. fin:TOPIC orders them by when they finished, in µs. fins has
-- the topics that remember their last jobs, finh those that remember for a duration, by when a job last finished; fin
-- is the number of all finished jobs of topics in fins. A job that somebody waited for, see the pair await, is in
-- fin:TOPIC as if it had finished ANSWERED later, and until then stays, whatever its topic remembers; r:TOPIC/ID has its
-- result. (That the key expires only frees its memory: describe looks at the time in fin:TOPIC.)
local ANSWERED = 120000 -- ms
local PRESSED = 0.85 -- part of maxmemory above which no job is remembered

-- Forgets up to n of a topic's finished jobs that need not stay, the oldest first. Only absent hosts make it read them, see clear.
local function forget(topic, n)
  local key, lists = P .. 'fin:' .. topic, {}
  local ids = call('ZRANGE', key, '-inf', text(micros + 1000), 'BYSCORE', 'LIMIT', 0, n) -- those of this call, too
  if #ids == 0 then return end
  for i, record in ipairs(run.before ~= '' and call('HMGET', P .. 'j:' .. topic, unpack(ids)) or {}) do
    local job = parse(record)
    if job then clear(topic, ids[i], job) end
  end
  for i, id in ipairs(ids) do lists[i] = P .. 'a:' .. topic .. '/' .. id end
  call('ZREM', key, unpack(ids))
  call('UNLINK', unpack(lists))
  call('HDEL', P .. 'j:' .. topic, unpack(ids))
  leaveFinished(topic, #ids)
  tidy(topic)
end

-- Whether Redis is nearly full; if so, forgets some jobs of quiet topics. One in 64 calls checks, once.
local function full()
  if micros % 64 ~= 0 or run.full ~= nil then return run.full end
  run.full = false
  local info = call('INFO', 'memory')
  local most = tonumber(string.match(info, '\nmaxmemory:(%d+)'))
  if most == 0 or tonumber(string.match(info, 'used_memory:(%d+)')) < PRESSED * most then return false end
  run.full = true
  for _, topics in ipairs({'fins', 'finh'}) do
    for _, topic in ipairs(call('ZRANGE', P .. topics, 0, 4)) do forget(topic, 50) end
  end
  return true
end

-- Whether a topic remembers its finished jobs.
local function remembers(topic)
  local s = settings(topic)
  if s.remembers == nil then s.remembers = s.remember ~= nil and not s.namespace and not full() end
  return s.remembers
end

-- Stores finished jobs, ids and records in turn, and forgets others to make room. They stay for at least ms.
local function keepFinished(topic, jobs, ms)
  local s, key, entries = settings(topic), P .. 'fin:' .. topic, {}
  for i = 1, #jobs, 2 do entries[i], entries[i + 1] = text(micros + ms * 1000 + (i + 1) / 2), jobs[i] end
  call('HSET', P .. 'j:' .. topic, unpack(jobs))
  call('ZADD', key, unpack(entries))
  if ms > 0 then
    event(topic, now + ms + 1)
    if not remembers(topic) then return end
  end
  if s.remember ~= 'last' then
    call('ZADD', P .. 'finh', now, topic)
    return event(topic, now + s.remember)
  end
  call('ZADD', P .. 'fins', now, topic)
  local all = call('INCRBY', P .. 'fin', #jobs / 2)
  local over = call('ZCARD', key) - s.keep
  if over > 0 then forget(topic, math.min(over, 500)) end
  for _ = 1, all > s.all and 10 or 0 do -- quiet topics, until there is room
    local quiet = call('ZRANGE', P .. 'fins', 0, 0)[1]
    over = call('GET', P .. 'fin') - s.all
    if over <= 0 or not quiet then break end
    forget(quiet, math.min(over, 100))
  end
end

-- Stores a finished job that somebody waited for, with its result as JSON, or ''. They stay for ms.
local function keepAnswer(topic, id, job, last, result, ms)
  if result ~= '' and not full() then call('SET', P .. 'r:' .. topic .. '/' .. id, result, 'PX', text(ms)) end
  keepFinished(topic, {id, render(job, ' last=' .. last)}, ms)
  tell(topic, id, job)
end
