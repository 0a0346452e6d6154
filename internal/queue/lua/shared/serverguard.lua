-- Precedes every script that reads or changes jobs. A server that has not been compared with the journals of the hosts
-- may have lost accepted changes, so the script does nothing, see shards_compare.go.
local compared = redis.call('GET', KEYS[1] .. 'run')
if not compared or not string.find(redis.call('INFO', 'server'), compared, 1, true) then
  return redis.error_reply('NOTCOMPARED this server has not been compared with the journals of the hosts yet')
end
