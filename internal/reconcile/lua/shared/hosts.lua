-- The hosts that attend, in the hash hosts. Each has four fields, a word and the host: at (when it last attended),
-- comparison (the last one that it has replayed, '-': none), journal (its journal's end position then) and state:
-- 'running', 'left' (it stopped, and the data had all of its changes then) or 'forgotten'.
local HOST = {'at ', 'comparison ', 'journal ', 'state '}

local function readHash(key)
  local fields, flat = {}, call('HGETALL', P .. key)
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  return fields
end

-- Returns the fields of each host, by its name.
local function readHosts()
  local hosts = {}
  for field, value in pairs(readHash('hosts')) do
    local word, name = string.match(field, '^(%l+) (.+)$')
    hosts[name] = hosts[name] or {}
    hosts[name][word] = value
  end
  return hosts
end

local function writeHost(name, replayed, journal, state)
  local values = {text(now), replayed, journal, state}
  for i, word in ipairs(HOST) do call('HSET', P .. 'hosts', word .. name, values[i]) end
end

local function removeHost(name)
  for _, word in ipairs(HOST) do call('HDEL', P .. 'hosts', word .. name) end
end
