-- What a script gathers about topics, and finish(), which writes it once at the end.

-- A topic's limits; conf has them as "ttr max_attempts paused max_in_flight rate".
local function confOf(topic)
  local c = confs[topic]
  if c then return c end
  c = {ttr = 10000, max = 10, paused = false, flight = 0, rate = 0}
  local s = call('HGET', P .. 'conf', topic)
  if s then
    local ttr, max, paused, flight, rate = string.match(s, '^(%S+) (%S+) (%S+) (%S+) (%S+)')
    c = {ttr = tonumber(ttr), max = tonumber(max), paused = paused == '1'}
    c.flight, c.rate = tonumber(flight), tonumber(rate)
  end
  confs[topic] = c
  return c
end

local function count(state, topic, n)
  local c = counts[state]
  if not c then c = {}; counts[state] = c end
  c[topic] = (c[topic] or 0) + n
end

local function total(what, topic, n)
  local t = totals[topic]
  if not t then t = {}; totals[topic] = t end
  t[what] = (t[what] or 0) + n
end

-- The first event of a day (UTC) stores the counts of the day before, and where the totals stand now.
local function newDay(key, was, today)
  local have = call('HGETALL', key)
  local at = {}
  for i = 1, #have, 2 do at[have[i]] = have[i + 1] end
  local brought = {}
  for what in string.gmatch(TOTALS, '.') do
    local n = at[what] or 0
    brought[#brought + 1] = string.format('%d', n - (at['s' .. what] or 0))
    call('HSET', key, 's' .. what, n)
  end
  if was then
    call('HSET', key, 'D:' .. was, table.concat(brought, ' '))
    for day = math.max(was, today - 64) - DAYS, today - DAYS - 1 do call('HDEL', key, 'D:' .. day) end
  end
  call('HSET', key, 'day', today)
  call('ZREMRANGEBYSCORE', P .. 'act', '-inf', now - DAYS * 86400000)
end

local function writeTotals()
  local today = string.format('%d', floor(now / 86400000))
  for topic, t in pairs(totals) do
    local key = P .. 't:' .. topic
    local last = call('HMGET', key, 'day', 'at')
    if last[1] ~= today then newDay(key, last[1], today) end
    if now - (last[2] or 0) >= 1000 then
      call('HSET', key, 'at', string.format('%d', now))
      call('ZADD', P .. 'act', string.format('%d', now), topic)
    end
    for what, n in pairs(t) do call('HINCRBY', key, what, string.format('%d', n)) end
  end
end

-- Something happens to a topic's jobs at a time: due must not be later.
local function event(topic, at)
  local e = events[topic]
  if not e or at < e then events[topic] = at end
end

-- Appends a job to its ready list.
local function ready(topic, priority, ref)
  local p = readies[priority]
  if not p then p = {}; readies[priority] = p end
  local l = p[topic]
  if not l then l = {}; p[topic] = l end
  l[#l + 1] = ref
  count('nr', topic, 1)
end

-- RPUSH, ZADD and the like of many arguments, in steps that unpack() can take.
local function many(command, key, args)
  for i = 1, #args, 1000 do
    call(command, key, unpack(args, i, math.min(i + 999, #args)))
  end
end

-- Puts a topic back into the rings, since its limits may leave something.
local function unpark(topic)
  for p = 0, 2 do
    if call('ZREM', P .. 'park', p .. ':' .. topic) == 1 then
      call('RPUSH', P .. 'q:' .. p, topic)
      wakeDispatchers = true
    end
  end
end

local function finish()
  for p, byTopic in pairs(readies) do
    for topic, refs in pairs(byTopic) do
      local key = P .. 'r:' .. p .. ':' .. topic
      local before = call('LLEN', key)
      many('RPUSH', key, refs)
      if before == 0 then call('RPUSH', P .. 'q:' .. p, topic) end
      wakeDispatchers = true
    end
  end
  for state, byTopic in pairs(counts) do
    for topic, n in pairs(byTopic) do
      if n ~= 0 then call('HINCRBY', P .. state, topic, string.format('%d', n)) end
    end
  end
  writeTotals()
  for topic, at in pairs(events) do
    local known = call('ZSCORE', P .. 'due', topic)
    if not known or at < tonumber(known) then
      if call('ZCOUNT', P .. 'due', '-inf', at) == 0 then wakeTimers = true end
      call('ZADD', P .. 'due', at, topic)
    end
  end
  if wakeTimers then call('PUBLISH', P .. 'wake', 'T') end
  if wakeDispatchers and call('DEL', P .. 'idle') == 1 then call('PUBLISH', P .. 'wake', 'D') end
end
