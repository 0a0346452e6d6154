-- What a script gathers about topics, and finish(), which writes it once at the end.

-- The settings of a topic's namespace, and its name; nil when it is in none.
local function namespaceOf(topic)
  local names, from = {}, 1
  for _ = 1, 3 do
    local dot = string.find(topic, '.', from, true)
    if not dot or dot == #topic then break end
    table.insert(names, 1, string.sub(topic, 1, dot) .. '*')
    from = dot + 1
  end
  if #names == 0 then return nil end
  local found = call('HMGET', P .. 'conf', unpack(names))
  for i, name in ipairs(names) do
    if found[i] then return found[i], name end
  end
end

-- A topic's settings; conf has them as "ttr max_attempts paused max_in_flight rate", and behind that the mode if it is
-- not 0: 1 for a pull topic, 2 when expired jobs are removed. Without any of its own it has those of its namespace.
local function confOf(topic)
  local c = confs[topic]
  if c then return c end
  c = {ttr = 10000, max = 10, paused = false, flight = 0, rate = 0}
  local s, namespace = call('HGET', P .. 'conf', topic), nil
  if not s then s, namespace = namespaceOf(topic) end
  if s and s ~= '' then
    local ttr, max, paused, flight, rate, mode = string.match(s, '^(%S+) (%S+) (%S+) (%S+) (%S+) ?(%d*)')
    c = {ttr = tonumber(ttr), max = tonumber(max), paused = paused == '1', namespace = namespace}
    c.flight, c.rate, mode = tonumber(flight), tonumber(rate), tonumber(mode) or 0
    c.pull, c.drop = mode % 2 == 1, mode >= 2
  end
  confs[topic] = c
  return c
end

-- The namespace of a topic, or nil. Only names with a dot have one.
local function inNamespace(topic)
  return string.find(topic, '.', 1, true) and confOf(topic).namespace
end

local function count(state, topic, n)
  local c = counts[state]
  if not c then c = {}; counts[state] = c end
  c[topic] = (c[topic] or 0) + n
end

-- Of a topic that is made by use nothing may be left, so its namespace counts.
local function total(what, topic, n)
  topic = inNamespace(topic) or topic
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

-- Says that a ready list has something; first: it was empty before.
local function offer(topic, p, first)
  if confOf(topic).pull then
    told[topic] = true
    return
  end
  if first then call('RPUSH', P .. 'q:' .. p, topic) end
  wakeDispatchers = true
end

-- Puts a job back to the head of its ready list, as the one that has waited longest. In a pull topic the order is that
-- in which jobs became ready, so there it is the last.
local function putBack(topic, ref)
  local p = ref % 4
  local push = confOf(topic).pull and 'RPUSH' or 'LPUSH'
  offer(topic, p, call(push, P .. 'r:' .. p .. ':' .. topic, ref) == 1)
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

-- Removes from the ready lists of a pull topic without ready jobs what is left of jobs that are gone, as far as a
-- bounded step goes.
local function purge(topic)
  for p = 0, 2 do
    local key = P .. 'r:' .. p .. ':' .. topic
    for _ = 1, 100 do
      local ref = call('LINDEX', key, 0)
      if not ref or read(placeOf(ref)) then break end
      call('LPOP', key)
    end
  end
end

local function writeCount(state, topic, n)
  local left = call('HINCRBY', P .. state, topic, string.format('%d', n))
  if n > 0 and not string.find(topic, '.', 1, true) or not confOf(topic).pull then return end
  if state == 'nr' and n < 0 and left <= 0 then purge(topic) end
  if state == 'nu' and n < 0 and confOf(topic).flight > 0 then told[topic] = true end
  local namespace = inNamespace(topic)
  if not namespace then return end
  if left == 0 then call('HDEL', P .. state, topic) end
  call('HINCRBY', P .. state, namespace, string.format('%d', n))
end

-- Tells the workers who wait for a topic, once.
local function tell()
  local waited = {}
  for topic in pairs(told) do
    if call('ZREM', P .. 'awaited', topic) == 1 then waited[#waited + 1] = topic end
  end
  if #waited > 0 then call('PUBLISH', P .. 'pull', table.concat(waited, ' ')) end
end

local function finish()
  for p, byTopic in pairs(readies) do
    for topic, refs in pairs(byTopic) do
      local key = P .. 'r:' .. p .. ':' .. topic
      local before = call('LLEN', key)
      many('RPUSH', key, refs)
      offer(topic, p, before == 0)
    end
  end
  for state, byTopic in pairs(counts) do
    for topic, n in pairs(byTopic) do
      if n ~= 0 then writeCount(state, topic, n) end
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
  tell()
  if wakeTimers then call('PUBLISH', P .. 'wake', 'T') end
  if wakeDispatchers and call('DEL', P .. 'idle') == 1 then call('PUBLISH', P .. 'wake', 'D') end
end
