-- Precedes pushes of ids that no journal can have, and pushes that replace: their revisions are above all that the
-- journals have, so they are also stored while the server is being compared, or while hosts are absent.
local info, compared, before = redis.call('INFO', 'server'), redis.call('GET', KEYS[1] .. 'run') or '', ''
if compared ~= '' and string.find(info, string.sub(compared, 1, 40), 1, true) then
  before = string.sub(compared, 42)
else
  local cmp = redis.call('HMGET', KEYS[1] .. 'cmp', 'run', 'upto')
  if not cmp[1] or cmp[2] or not string.find(info, cmp[1], 1, true) then
    return redis.error_reply('NOTCOMPARED this server has not been compared with the journals of the hosts yet')
  end
end
