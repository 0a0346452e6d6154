-- A topic's settings and the state of its limits, c:TOPIC: window and windowAt (when it was stored), open (until when
-- the breaker is), fails (in a row), probe (ms between probes), tat (from when the rate allows the next job), until
-- (when its limits may allow a job again), and order, see order.lua. A topic without settings of its own has those of
-- its namespace; configure.lua lists them.
local DEFAULTS = {ttr = 10000, max = 10, flight = 0, rate = 0, keep = 0, all = 0, window = 32, windowAt = 0, open = 0,
  fails = 0, probe = 0, tat = 0, ['until'] = 0}
run.topics = {}

-- Reads c:NAME into s. Returns whether it has settings.
local function read(name, s)
  local fields = call('HGETALL', P .. 'c:' .. name)
  for i = 1, #fields, 2 do s[fields[i]] = tonumber(fields[i + 1]) or fields[i + 1] end
  return s.ttr ~= nil
end

-- Reads the settings of a namespace into s, that of the longest name that has some. Returns its name.
local function inherit(topic, s)
  for _, pattern in ipairs({'^([^.]*%.[^.]*%.[^.]*%.).', '^([^.]*%.[^.]*%.).', '^([^.]*%.).'}) do
    local prefix = string.match(topic, pattern)
    if prefix and read(prefix .. '*', s) then return prefix .. '*' end
  end
end

local function settings(topic)
  local s = run.topics[topic]
  if s then return s end
  s = {}
  s.own = read(topic, s)
  if not s.own and string.find(topic, '.', 1, true) then s.namespace = inherit(topic, s) end
  run.topics[topic] = setmetatable(s, {__index = DEFAULTS})
  return s
end
