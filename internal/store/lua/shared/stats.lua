-- Counts the jobs of a topic: delayed, ready, running, dead, ms since the oldest ready job fell due, how many of
-- the ready ones have the priority high (held ones are not among these, see key.lua); nil without any.
local function statsOf(topic)
  local all = call('HLEN', P .. 'j:' .. topic)
  if all == 0 then return nil end
  local running, dead = call('ZCARD', P .. 'l:' .. topic), call('ZCARD', P .. 'dead:' .. topic)
  local waiting = all - running - dead - call('ZCARD', P .. 'fin:' .. topic)
  local ready, high, oldest = 0, 0, 0
  for _, set in ipairs(waiting > 0 and {'w:high:', 'w:normal:', 'w:low:', 'h:'} or {}) do
    local key = P .. set .. topic
    local n = call('ZCOUNT', key, '-inf', DUE)
    if n > 0 then
      local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
      local job = find(topic, first[1])
      oldest = math.max(oldest, now - math.max(first[2] / 1000, job and job.created or 0)) -- due times may be long past
    end
    if set == 'w:high:' then high = n end
    ready = ready + n
  end
  return {waiting - ready, ready, running, dead, math.floor(oldest), high}
end
