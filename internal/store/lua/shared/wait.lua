-- Jobs that wait, and the topics that have due ones.
local MINUTE, LEAD = 60000, 60000
local EARLY = 0.3 -- ms before a job is due its topic gets its turn: less than a dispatcher needs until it reserves
local FEW, DENSE = 100, 16 -- a new list of a minute only for a topic with more jobs, and this many a list on average

-- The first score of a sorted set, and its member.
local function head(key)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return tonumber(first[2]), first[1]
end

-- A time in ms, to the microsecond.
local function exact(ms) return string.format('%.3f', ms) end

-- Notes that a topic has an event at a time: next is never later than a topic's next event. Tells timers about one
-- before all others, with the time and this server's, in µs, so that they need not ask. Later events than one in
-- run.known cost nothing.
run.known = {}
local function event(topic, at)
  if at >= (run.known[topic] or math.huge) then return end
  run.known[topic] = at
  run.soonest = run.soonest or head(P .. 'next') or math.huge
  call('ZADD', P .. 'next', 'LT', exact(at), topic)
  if tonumber(exact(at)) >= run.soonest then return end
  run.soonest = at
  call('PUBLISH', P .. 'wake', 'E ' .. text(at * 1000 + 0.5) .. ' ' .. text(micros))
end

-- The microsecond of an argument '+ms' from now, or 'ms'.
local function instant(t) return 1000 * tonumber(t) + (string.sub(t, 1, 1) == '+' and micros or 0) end

-- When the topic of a job should get its turn, in ms, by the microsecond in w.
local function turnOf(at) return math.floor(at / 1000) - EARLY end

run.offered, run.dispatcherToldOfWork = 0, false
-- Gives a topic with due jobs of a priority its turn, behind all others, and wakes a dispatcher that waits, or workers.
local function offer(topic, priority)
  local s = settings(topic)
  if s.pull then
    if call('ZREM', P .. 'awaited', topic) == 0 then return end
    run.offered = run.offered + 1
    call('PUBLISH', P .. 'pull', topic)
    return
  end
  if s['until'] > now or s.paused then return end
  if call('ZADD', P .. 'q:' .. priority, 'NX', call('INCR', P .. 'turn'), topic) == 0 then return end
  run.offered = run.offered + 1
  if not run.dispatcherToldOfWork and call('DEL', P .. 'idle') == 1 then call('PUBLISH', P .. 'wake', 'D') end
  run.dispatcherToldOfWork = true
end

-- Offers each priority of a topic that has due jobs. Returns when to offer the next job of the others, or the second
-- job if it is not due, too: the timers then need not be told when the first one is taken.
local function offerDue(topic)
  local at = math.huge
  for _, priority in ipairs(PRIORITIES) do
    local first = call('ZRANGE', P .. 'w:' .. priority .. ':' .. topic, 0, 1, 'WITHSCORES')
    local turn, second = turnOf(first[2] or math.huge), turnOf(first[4] or math.huge)
    if turn <= micros / 1000 then
      offer(topic, priority)
      turn = second > micros / 1000 and second or math.huge
    end
    at = math.min(at, turn)
  end
  return at
end

-- Whether jobs of a minute have a list: not of the coming two minutes, or where lists would have few ids.
local function hasList(topic, minute)
  if minute * MINUTE - LEAD <= now then return false end
  local jobs, minutes = call('HLEN', P .. 'j:' .. topic), P .. 'm:' .. topic
  if jobs < FEW then return false end
  if call('ZSCORE', minutes, minute) then return true end
  if jobs < FEW + DENSE * call('ZCARD', minutes) then return false end
  call('ZADD', minutes, minute, minute)
  event(topic, minute * MINUTE - LEAD)
  return true
end

run.lists = {}
-- Puts the id of a job due at a time into the list of its minute, which takes a quarter of the memory of an entry in w.
-- Returns whether it did.
local function list(topic, id, due)
  local minute = math.floor(due / MINUTE)
  local key = P .. 'f:' .. topic .. ':' .. minute
  run.lists[key] = run.lists[key] or hasList(topic, minute)
  return run.lists[key] and call('RPUSH', key, id)
end

-- Adds a waiting job to w by the microsecond from which it may be called.
local function enqueue(topic, id, job, at)
  call('ZADD', P .. 'w:' .. job.priority .. ':' .. topic, text(at), id)
  local soon = at <= micros + 1000 -- jobs of one push are a microsecond apart, and may be due in the next millisecond
  if order(topic, id, job, at) and at > DUE or not soon then event(topic, turnOf(at)) end
  if soon then offer(topic, job.priority) end
end

-- Makes a job wait, perhaps again after a call, until a microsecond: in its key, the list of its minute, or w.
local function file(topic, id, job, at, again)
  local due, expires = math.floor(at / 1000), get(job, 'expires')
  if expires then
    call('ZADD', P .. 'e:' .. topic, expires, id)
    event(topic, tonumber(expires))
  end
  if job.more ~= '' and hold(topic, id, job, at, again) then return end
  if due > now and list(topic, id, due) then return end
  enqueue(topic, id, job, at)
end
