-- Precedes every script that reads or changes jobs. A server that has not been compared with the journals of the hosts
-- may have lost accepted changes, so the script does nothing, see shards_compare.go. before is not empty while hosts
-- are absent: the revision up to which their journals may have changes that this data lacks.
local compared = redis.call('GET', KEYS[1] .. 'run') or ''
local before = string.sub(compared, 42)
if compared == '' or not string.find(redis.call('INFO', 'server'), string.sub(compared, 1, 40), 1, true) then
  return redis.error_reply('NOTCOMPARED this server has not been compared with the journals of the hosts yet')
end
