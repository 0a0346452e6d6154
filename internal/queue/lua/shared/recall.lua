-- Finds finished jobs, see finished.go.
local HEAD = 14 -- bytes of a finished job before its extra and its record

-- A finished job's id, and when it finished.
local function idOf(f)
  local late, took, _, _, extra = struct.unpack('>I4I4I2I2I2', f)
  local due, _, _, id = decode(string.sub(f, HEAD + extra + 1))
  return id, due + late + took / 10
end

-- Whether a finished job is still remembered.
local function isRemembered(keep, at) return keep < 0 or at + keep > now end

-- The description of a finished job that described in job.go decodes.
local function describeFinished(f) return {0, 'g', 0, f, '', ''} end

-- The finished job of (topic, id), or nil.
local function recall(topic, address, id)
  local keep = confOf(topic).keep
  if keep == 0 then return nil end
  local n, field = struct.unpack('>I3c8', address)
  local place = -(call('HGET', smallHash(n, field), field) or 0)
  if place > 0 then
    local index = place % PAGE
    local key = P .. 'op:' .. string.format('%d', (place - index) / PAGE)
    local f = call('LINDEX', key, index)
    if not f or call('LINDEX', key, 0) ~= topic then return nil end
    local have, at = idOf(f)
    return have == id and isRemembered(keep, at) and f or nil
  end
  for _, at in ipairs(call('LPOS', P .. 'on:' .. topic, string.sub(field, 5), 'RANK', -1, 'COUNT', 8)) do
    local f = call('LINDEX', P .. 'o:' .. topic, at)
    if f and idOf(f) == id then return f end
  end
end
