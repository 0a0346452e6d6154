-- The hosts that attend, in the hash hosts. Each has four fields, a word and the host: at (when it last attended),
-- comparison (the one up to which it has replayed all, '-': none), journal (how far that was written) and state:
-- 'running', 'left' (it stopped, and the data had all of its changes then) or 'forgotten'.
local HOST = {'at ', 'comparison ', 'journal ', 'state '}

-- Returns the fields of each host, by its name.
local function readHosts()
  local hosts, flat = {}, call('HGETALL', P .. 'hosts')
  for i = 1, #flat, 2 do
    local word, name = string.match(flat[i], '^(%l+) (.+)$')
    hosts[name] = hosts[name] or {}
    hosts[name][word] = flat[i + 1]
  end
  return hosts
end

local function writeHost(name, comparison, journal, state)
  local values, fields = {text(now), comparison, journal, state}, {}
  for i, word in ipairs(HOST) do fields[2 * i - 1], fields[2 * i] = word .. name, values[i] end
  call('HSET', P .. 'hosts', unpack(fields))
end

local function removeHost(name)
  for _, word in ipairs(HOST) do call('HDEL', P .. 'hosts', word .. name) end
end
