local NOTCOMPARED = 'NOTCOMPARED this server has not been compared with the journals of the hosts yet'

-- The run id of the server that runs the script.
local function serverID() return string.match(call('INFO', 'server'), 'run_id:(%x+)') end

-- Whether the server has been compared, and whether hosts are absent.
local function isOpen(id)
  local run = call('GET', P .. 'run') or ''
  return string.sub(run, 1, 40) == id, #run > 40
end
