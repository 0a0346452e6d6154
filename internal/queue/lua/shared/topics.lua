-- Collects changes of topics, and finish() writes them once at the end. A call may involve hundreds of topics, so
-- entries in the same key are read and written at once.

-- RPUSH, ZADD and the like with many arguments, in steps that unpack() can handle. Returns the last answer.
local function many(command, key, args)
  local answer
  for i = 1, #args, 1000 do answer = call(command, key, unpack(args, i, math.min(i + 999, #args))) end
  return answer
end

-- HMGET and the like with many fields.
local function ask(command, key, fields)
  if #fields <= 1000 then return call(command, key, unpack(fields)) end
  local out = {}
  for i = 1, #fields, 1000 do
    local some = call(command, key, unpack(fields, i, math.min(i + 999, #fields)))
    for k = 1, #some do out[i + k - 1] = some[k] end
  end
  return out
end

-- The names for which a key P .. kind .. name exists. Usually all of them have one, or none has.
local function having(kind, names)
  local have = {}
  for from = 1, #names, SOME do
    local keys, to = {}, math.min(from + SOME - 1, #names)
    for i = from, to do keys[#keys + 1] = P .. kind .. names[i] end
    local n = call('EXISTS', unpack(keys))
    for i = from, n > 0 and to or 0 do
      have[names[i]] = n == #keys or call('EXISTS', keys[i - from + 1]) == 1 or nil
    end
  end
  return have
end

local function keysOf(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  return keys
end

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

-- A topic's entry in conf; false when it has no settings of its own.
local function settingsOf(topic)
  local s = settings[topic]
  if s == nil then
    s = call('HGET', P .. 'conf', topic)
    settings[topic] = s
  end
  return s
end

-- A topic's settings. conf stores "ttr max_attempts paused max_in_flight rate", then the mode if it is not 0 or
-- something follows (1 for a pull topic, 2 when expired jobs are removed), then, if finished jobs are remembered, for
-- how many ms, or -N:ALL for the last N of the topic and ALL of all topics. A topic without its own settings has those
-- of its namespace, but its finished jobs are not remembered.
local alike = {} -- by entry of conf: many topics have the same settings
local function confOf(topic)
  local c = confs[topic]
  if c then return c end
  c = {ttr = 10000, max = 10, paused = false, flight = 0, rate = 0, keep = 0}
  local s, namespace = settingsOf(topic), nil
  if not s then s, namespace = namespaceOf(topic) end
  local same = not namespace and alike[s]
  if same then
    confs[topic] = same
    return same
  end
  if s and s ~= '' then
    local ttr, max, paused, flight, rate, mode, keep, all =
      string.match(s, '^(%S+) (%S+) (%S+) (%S+) (%S+) ?(%d*) ?(%-?%d*):?(%d*)')
    c = {ttr = tonumber(ttr), max = tonumber(max), paused = paused == '1', namespace = namespace}
    c.keep, c.all = not namespace and tonumber(keep) or 0, tonumber(all)
    c.flight, c.rate, mode = tonumber(flight), tonumber(rate), tonumber(mode) or 0
    c.pull, c.drop = mode % 2 == 1, mode >= 2
  end
  confs[topic] = c
  if s and not namespace then alike[s] = c end
  return c
end

-- The namespace of a topic, or nil. Only names with a dot have one.
local function inNamespace(topic)
  return string.find(topic, '.', 1, true) and not settingsOf(topic) and confOf(topic).namespace
end

-- Reads at once the settings of topics, and the number of jobs of each in a state, delayed by default.
local function know(names, state, into)
  if #names == 0 then return end
  state, into = state or 'nd', into or known
  local of, have = ask('HMGET', P .. 'conf', names), ask('HMGET', P .. state, names)
  for i, topic in ipairs(names) do settings[topic], into[topic] = of[i], have[i] or 0 end
end

-- Whether a topic is thin with n more delayed jobs: they are so few that they are all in d:TOPIC and in one page. Pages
-- of a minute would have few records each, and a key takes 250 bytes.
local function isThin(topic, n)
  local delayed = known[topic] or call('HGET', P .. 'nd', topic) or 0
  known[topic] = delayed
  return delayed + (counts.nd and counts.nd[topic] or 0) + n <= THIN
end

local function count(state, topic, n)
  local c = counts[state]
  if not c then c = {}; counts[state] = c end
  c[topic] = (c[topic] or 0) + n
end

local function addTotal(what, topic, n)
  local t = totals[what]
  if not t then t = {}; totals[what] = t end
  t[topic] = (t[topic] or 0) + n
  happened[topic] = true
end

-- A topic that was created by use may vanish without a trace, so its namespace counts.
local function total(what, topic, n) addTotal(what, inNamespace(topic) or topic, n) end

-- The first event of a day (UTC) stores the counts of the day before, and the present totals.
local function newDay(key, today, exists)
  local have = exists and call('HGETALL', key) or {}
  local at = {}
  for i = 1, #have, 2 do at[have[i]] = have[i + 1] end
  local was = at.day
  if was == today then return end
  local began, brought = {'day', today}, {}
  for what in string.gmatch(TOTALS, '.') do
    local n = at[what]
    brought[#brought + 1] = string.format('%d', (n or 0) - (at['s' .. what] or 0))
    if n then began[#began + 1], began[#began + 2] = 's' .. what, n end
  end
  if was then
    began[#began + 1], began[#began + 2] = 'D:' .. was, table.concat(brought, ' ')
    for day = math.max(was, today - 64) - DAYS, today - DAYS - 1 do call('HDEL', key, 'D:' .. day) end
  end
  call('HSET', key, unpack(began))
end

-- act has the time when a topic's totals were last written, which shows whether a day is new.
local function writeTotals()
  local names = keysOf(happened)
  if #names == 0 then return end
  local today, last, active, begin = floor(now / 86400000), ask('ZMSCORE', P .. 'act', names), {}, {}
  for i, topic in ipairs(names) do
    local at = tonumber(last[i] or 0)
    if floor(at / 86400000) ~= today then begin[#begin + 1] = topic end
    if now - at >= 1000 then active[#active + 1], active[#active + 2] = string.format('%d', now), topic end
  end
  local have = having('t:', begin)
  for _, topic in ipairs(begin) do newDay(P .. 't:' .. topic, string.format('%d', today), have[topic]) end
  if #begin > 0 then call('ZREMRANGEBYSCORE', P .. 'act', '-inf', now - DAYS * 86400000) end
  many('ZADD', P .. 'act', active)
  for what, byTopic in pairs(totals) do
    for topic, n in pairs(byTopic) do call('HINCRBY', P .. 't:' .. topic, what, string.format('%d', n)) end
  end
end

-- Records that a topic has an event at a time: due must not be later.
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

local joining = {} -- by priority: the topics that finish() puts into the ring
-- Announces that a ready list has a job; first: it was empty before.
local function offer(topic, p, first)
  if confOf(topic).pull then
    told[topic] = true
    return
  end
  if first then
    local j = joining[p]
    if not j then j = {}; joining[p] = j end
    j[#j + 1] = topic
  end
  wakeDispatchers = true
end

-- Puts a job back to the head of its ready list, as the one that has waited longest. In a pull topic jobs are in the
-- order in which they became ready, so there it becomes the last.
local function putBack(topic, ref)
  local p = ref % 4
  local push = confOf(topic).pull and 'RPUSH' or 'LPUSH'
  offer(topic, p, call(push, P .. 'r:' .. p .. ':' .. topic, ref) == 1)
  count('nr', topic, 1)
end

-- Takes a topic out of the ring of a priority for which it has no ready list.
local function leaveRing(topic, p)
  call('LREM', P .. 'q:' .. p, 0, topic)
  call('ZREM', P .. 'park', p .. ':' .. topic)
end

-- Takes a job's reference out of its ready list, so that nobody else takes the job.
local function unlist(topic, ref)
  local p = ref % 4
  local key = P .. 'r:' .. p .. ':' .. topic
  call('LREM', key, 1, string.format('%d', ref))
  if not confOf(topic).pull and call('EXISTS', key) == 0 then leaveRing(topic, p) end
end

-- Puts a topic back into the rings, since its limits may allow a job.
local function unpark(topic)
  for p = 0, 2 do
    if call('ZREM', P .. 'park', p .. ':' .. topic) == 1 then
      call('RPUSH', P .. 'q:' .. p, topic)
      wakeDispatchers = true
    end
  end
end

-- Removes references to gone jobs from the heads of the ready lists of a pull topic without ready jobs, in a bounded
-- step. Each place is read: a reference that left its list without cause would be a lost job.
local function purge(topic)
  for p = 0, 2 do
    local key = P .. 'r:' .. p .. ':' .. topic
    local gone = 0
    readAll(call('LRANGE', key, 0, PURGED - 1), function(i, _, _, rec)
      if gone == i - 1 and (not rec or rec == '') then gone = i end
    end)
    if gone > 0 then call('LTRIM', key, gone, -1) end
  end
end

-- Handles the consequences of a count that changed by n.
local function counted(state, topic, n, left)
  local namespace = inNamespace(topic)
  if not namespace and (n > 0 or not confOf(topic).pull) then return end
  if state == 'nr' and n < 0 and left <= 0 then purge(topic) end
  if state == 'nu' and n < 0 and confOf(topic).flight > 0 then told[topic] = true end
  if not namespace then return end
  if left == 0 then call('HDEL', P .. state, topic) end
  call('HINCRBY', P .. state, namespace, string.format('%d', n))
end

-- The numbers of delayed jobs of topics, as nd has them until writeCounts; nil unless known for all.
local function knownOf(names)
  local list = {}
  for i, topic in ipairs(names) do
    if not known[topic] then return nil end
    list[i] = known[topic]
  end
  return list
end

local function writeCounts(state, changes)
  local names, args = {}, {}
  for topic, n in pairs(changes) do
    if n ~= 0 then names[#names + 1] = topic end
  end
  if #names == 0 then return end
  local have = state == 'nd' and knownOf(names) or ask('HMGET', P .. state, names)
  for i, topic in ipairs(names) do
    have[i] = (have[i] or 0) + changes[topic]
    args[2 * i - 1], args[2 * i] = topic, string.format('%d', have[i])
  end
  many('HSET', P .. state, args)
  for i, topic in ipairs(names) do counted(state, topic, changes[topic], have[i]) end
end

local function writeEvents()
  local args, first = {}, math.huge
  for topic, at in pairs(events) do
    first = math.min(first, at)
    args[#args + 1], args[#args + 2] = string.format('%d', at), topic
  end
  if first == math.huge then return end
  local head = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2]
  wakeTimers = wakeTimers or not head or first < tonumber(head)
  for i = 1, #args, 1000 do call('ZADD', P .. 'due', 'LT', unpack(args, i, math.min(i + 999, #args))) end
end

-- Sends one wake-up to the workers that wait for topics.
local function tell()
  local waited = {}
  for topic in pairs(told) do
    if call('ZREM', P .. 'awaited', topic) == 1 then waited[#waited + 1] = topic end
  end
  if #waited > 0 then call('PUBLISH', P .. 'pull', table.concat(waited, ' ')) end
end

-- Removes a page.
local function dropPage(topic, page)
  call('UNLINK', P .. 'p:' .. page, P .. 'a:' .. page)
  call('HDEL', P .. 'gone', page)
  local slot = call('ZSCORE', P .. 'pg:' .. topic, page)
  local field = topic
  if slot then
    call('ZREM', P .. 'pg:' .. topic, page)
    field = topic .. '/' .. slot
  end
  if call('HGET', P .. 'cur', field) == tostring(page) then call('HDEL', P .. 'cur', field) end
end

local function writeGone()
  local pages, left = keysOf(freed), {}
  for i, before in ipairs(#pages > 0 and ask('HMGET', P .. 'gone', pages) or {}) do
    local page = pages[i]
    local total = (before or 0) + freed[page]
    if total >= call('LLEN', P .. 'p:' .. page) - 1 then
      dropPage(topics[page], page)
    else
      left[#left + 1], left[#left + 2] = page, string.format('%d', total)
    end
  end
  many('HSET', P .. 'gone', left)
end

local function finish()
  writeGone()
  for p, byTopic in pairs(readies) do
    for topic, refs in pairs(byTopic) do
      offer(topic, p, many('RPUSH', P .. 'r:' .. p .. ':' .. topic, refs) == #refs)
    end
  end
  for p, names in pairs(joining) do many('RPUSH', P .. 'q:' .. p, names) end
  for state, changes in pairs(counts) do writeCounts(state, changes) end
  writeTotals()
  writeEvents()
  tell()
  if wakeTimers then call('PUBLISH', P .. 'wake', 'T') end
  if wakeDispatchers and call('DEL', P .. 'idle') == 1 then call('PUBLISH', P .. 'wake', 'D') end
end
