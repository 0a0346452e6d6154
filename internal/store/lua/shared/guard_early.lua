-- Precedes pushes of ids that no journal can have, and pushes that replace: their revisions are above all that the
-- journals have, so they are also stored while the server is being compared, or while hosts are absent.
do
  local id = serverID()
  local compared, before = isCompared(id)
  local cmp = not compared and call('HMGET', P .. 'cmp', 'run', 'upto')
  if cmp and (cmp[1] ~= id or cmp[2]) then return redis.error_reply(NOTCOMPARED) end
  if compared then run.before = before end
end
