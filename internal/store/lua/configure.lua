#!lua flags=allow-oom
-- With: topic, totals, wait.
-- Sets the settings of topics and namespaces.
-- KEYS[1] the bucket's prefix.
-- ARGV    for each: name, then its SETTINGS, '' for one that it has not. One without a TTR no longer has settings of
--         its own.
-- Returns nothing.
-- Keeps   a topic whose settings changed has an event now: wake.lua gives it its turn, or tells its workers, if it may.
local SETTINGS = {'ttr', 'max', 'flight', 'rate', 'paused', 'pull', 'drop', 'remember', 'keep', 'all', 'keyflight',
  'keyrate', 'keyskip'}

-- The topics that have settings by a name: the topic, or those of the namespace that have jobs or waiting workers.
local function namedBy(name)
  if string.sub(name, -2) ~= '.*' then return {[name] = true} end
  local prefix, found = string.sub(name, 1, -2), {}
  for _, topics in ipairs({call('SMEMBERS', P .. 'topics'), call('ZRANGE', P .. 'awaited', 0, -1)}) do
    for _, topic in ipairs(topics) do
      if string.sub(topic, 1, #prefix) == prefix and topic ~= name then found[topic] = true end
    end
  end
  return found
end

-- Counts the jobs of a topic for another namespace from now on.
local function recount(topic, was)
  local is = settings(topic).namespace or topic
  local live = call('HLEN', P .. 'j:' .. topic) - call('ZCARD', P .. 'fin:' .. topic)
  if is == was or live == 0 then return end
  call('HINCRBY', P .. 't:' .. was, 'pushed', -live)
  count(topic, 'pushed', live)
end

-- The finished jobs of topics in fins are counted in fin, those of topics in finh are not.
local function remembers(topic, was, is)
  if (was == 'last') == (is == 'last') or call('EXISTS', P .. 'fin:' .. topic) == 0 then return end
  call('ZREM', P .. (is == 'last' and 'finh' or 'fins'), topic)
  call('ZADD', P .. (is == 'last' and 'fins' or 'finh'), now, topic)
  call('INCRBY', P .. 'fin', (is == 'last' and 1 or -1) * call('ZCARD', P .. 'fin:' .. topic))
end

-- Stores the settings of a name.
local function configure(name, was, values)
  local named, owners = namedBy(name), {}
  local moves = not was[1] or values[1] == '' -- topics to a namespace, or out of one
  for topic in pairs(moves and named or {}) do owners[topic] = settings(topic).namespace or topic end
  remembers(name, was[8], values[8])
  for k, setting in ipairs(SETTINGS) do
    if values[k] == '' then call('HDEL', P .. 'c:' .. name, setting) end
    if values[k] ~= '' then call('HSET', P .. 'c:' .. name, setting, values[k]) end
  end
  run.topics = {}
  for topic in pairs(named) do
    call('HDEL', P .. 'c:' .. topic, 'until')
    if moves then recount(topic, owners[topic]) end
    event(topic, now)
  end
  if named[name] then offerDue(name) end
end

for i = 1, #ARGV, #SETTINGS + 1 do
  local name, values = ARGV[i], {unpack(ARGV, i + 1, i + #SETTINGS)}
  local was = call('HMGET', P .. 'c:' .. name, unpack(SETTINGS))
  local same = true
  for k, value in ipairs(values) do same = same and (was[k] or '') == value end
  if not same then configure(name, was, values) end
end
