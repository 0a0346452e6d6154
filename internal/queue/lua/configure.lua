#!lua flags=allow-oom
-- Sets topics' settings. A topic whose limits changed is unparked; one that became a pull topic leaves the rings, and
-- one that became a push topic enters them. One that no longer remembers finished jobs forgets those it has.
-- KEYS[1] the bucket's prefix.
-- ARGV    pairs (topic or namespace, settings as confOf reads them, or '' when it no longer has any).
-- Returns how many changed.
-- Keeps   invariants 2, 4 and 5.
local STATES = {'nd', 'nr', 'nu', 'nx'}
local changed = 0

local function enterRings(topic)
  for p = 0, 2 do
    if call('EXISTS', P .. 'r:' .. p .. ':' .. topic) == 1 then
      call('RPUSH', P .. 'q:' .. p, topic)
      wakeDispatchers = true
    end
  end
end

-- Counts the live jobs of a topic, and their pushes, for another namespace from now on.
local function recount(topic, from, to)
  local live = 0
  for _, state in ipairs(STATES) do
    local n = tonumber(call('HGET', P .. state, topic) or 0)
    live = live + n
    if n ~= 0 and from then call('HINCRBY', P .. state, from, -n) end
    if n ~= 0 and to then call('HINCRBY', P .. state, to, n) end
  end
  if live == 0 then return end
  for where, n in pairs({[from or topic] = -live, [to or topic] = live}) do
    addTotal('p', where, n)
  end
end

local function switch(topic, was)
  confs[topic], settings[topic] = nil, nil
  local is = confOf(topic)
  if is.namespace ~= was.namespace then recount(topic, was.namespace, is.namespace) end
  if is.pull and not was.pull then
    for p = 0, 2 do leaveRing(topic, p) end
  end
  if was.pull and not is.pull then enterRings(topic) end
  if is.pull then told[topic] = true end
  if is.keep == 0 and was.keep ~= 0 then forgetTopic(topic) end
end

local function set(name, conf)
  if conf == '' then call('HDEL', P .. 'conf', name) else call('HSET', P .. 'conf', name, conf) end
end

-- The topics of a namespace that have jobs, and those that workers wait for.
local function members(namespace)
  local begin, found = string.sub(namespace, 1, -2), {}
  local function add(topic)
    if string.sub(topic, 1, #begin) == begin and topic ~= namespace then found[topic] = true end
  end
  for _, state in ipairs(STATES) do
    for _, topic in ipairs(call('HKEYS', P .. state)) do add(topic) end
  end
  for _, topic in ipairs(call('ZRANGE', P .. 'awaited', 0, -1)) do add(topic) end
  return found
end

for i = 1, #ARGV, 2 do
  local name, conf = ARGV[i], ARGV[i + 1]
  if (call('HGET', P .. 'conf', name) or '') ~= conf then
    local topics = string.sub(name, -2) == '.*' and members(name) or {[name] = true}
    local was = {}
    for topic in pairs(topics) do was[topic] = confOf(topic) end
    set(name, conf)
    for topic, before in pairs(was) do switch(topic, before) end
    unpark(name)
    changed = changed + 1
  end
end
finish()
return changed
