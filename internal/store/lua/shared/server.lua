-- Which server runs the script, and whether the hosts have compared it with their journals.
local NOTCOMPARED = 'NOTCOMPARED this server has not been compared with the journals of the hosts yet'

local function serverID()
  local info = call('INFO', 'server')
  local _, at = string.find(info, 'run_id:', 1, true)
  return string.sub(info, at + 1, at + 40)
end

-- Returns whether the server has been compared, the revision up to which the journals of absent hosts may have changes
-- that this data lacks ('' when no host is absent), and whether a comparison of this server has begun.
local function comparison()
  local cmp = call('HMGET', P .. 'cmp', 'run', 'upto', 'before')
  local begun = cmp[1] == serverID()
  return begun and cmp[2] ~= false, cmp[3] or '', begun
end
