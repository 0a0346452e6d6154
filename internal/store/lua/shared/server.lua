-- Which server runs the script, and whether the hosts have compared it with their journals.
local NOTCOMPARED = 'NOTCOMPARED this server has not been compared with the journals of the hosts yet'

local function serverID()
  local info = call('INFO', 'server')
  local _, at = string.find(info, 'run_id:', 1, true)
  return string.sub(info, at + 1, at + 40)
end

-- Whether the server has been compared; then also the revision up to which the journals of absent hosts may have
-- changes that this data lacks, '' when no host is absent.
local function isCompared(id)
  local stored = call('GET', P .. 'run') or ''
  return string.sub(stored, 1, 40) == id, string.sub(stored, 42)
end
