-- A topic's settings and the state of its limits, c:TOPIC. A topic without settings of its own has those of its
-- namespace.
local FIELDS = {'ttr', 'max', 'flight', 'rate', 'paused', 'pull', 'drop', 'remember', 'keep', 'all',
  'window', 'used', 'open', 'fails', 'probe', 'turn', 'until'}
local SETTINGS = 10 -- fields that configure.lua sets; the others are the state
local DEFAULTS = {ttr = 10000, max = 10, flight = 0, rate = 0, keep = 0, all = 0, window = 32, used = 0, open = 0,
  fails = 0, probe = 0, turn = 0, ['until'] = 0}
local topics = {}

-- Reads the settings of a namespace into values, that of the longest name that has some. Returns its name.
local function inherit(topic, values)
  for _, pattern in ipairs({'^([^.]*%.[^.]*%.[^.]*%.).', '^([^.]*%.[^.]*%.).', '^([^.]*%.).'}) do
    local prefix = string.match(topic, pattern)
    local found = prefix and call('HMGET', P .. 'c:' .. prefix .. '*', unpack(FIELDS, 1, SETTINGS)) or {}
    if found[1] then
      for i = 1, SETTINGS do values[i] = found[i] end
      return prefix .. '*'
    end
  end
end

local function settings(topic)
  local s = topics[topic]
  if s then return s end
  local values, namespace = call('HMGET', P .. 'c:' .. topic, unpack(FIELDS)), nil
  if not values[1] and string.find(topic, '.', 1, true) then namespace = inherit(topic, values) end
  s = setmetatable({namespace = namespace, own = values[1] and not namespace}, {__index = DEFAULTS})
  for i = 1, #FIELDS do
    if values[i] then s[FIELDS[i]] = tonumber(values[i]) or values[i] end
  end
  topics[topic] = s
  return s
end
