-- Counts the jobs of a topic: delayed, ready, running, dead, ms since the oldest ready job fell due, how many of
-- the ready ones have the priority high; nil without any.
local function statsOf(topic)
  local all = call('HLEN', P .. 'j:' .. topic)
  if all == 0 then return nil end
  local running, dead = call('ZCARD', P .. 'l:' .. topic), call('ZCARD', P .. 'dead:' .. topic)
  local waiting = all - running - dead - call('ZCARD', P .. 'fin:' .. topic)
  local ready, high, oldest = 0, 0, 0
  for _, priority in ipairs(waiting > 0 and PRIORITIES or {}) do
    local key = P .. 'w:' .. priority .. ':' .. topic
    local n = call('ZCOUNT', key, '-inf', DUE)
    if n > 0 then
      local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
      local job = find(topic, first[1])
      oldest = math.max(oldest, now - math.max(first[2] / 1000, job and job.created or 0)) -- due times may be long past
    end
    if priority == 'high' then high = n end
    ready = ready + n
  end
  return {waiting - ready, ready, running, dead, math.floor(oldest), high}
end
