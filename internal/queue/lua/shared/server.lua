local NOTCOMPARED = 'NOTCOMPARED this server has not been compared with the journals of the hosts yet'

-- The run id of the server that runs the script.
local function serverID() return string.match(call('INFO', 'server'), 'run_id:(%x+)') end
