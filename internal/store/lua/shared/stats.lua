-- Counts the jobs of a topic: delayed, ready, running, dead, ms since the oldest ready job fell due, how many of
-- the ready ones have the priority high; nil without any.
local function statsOf(topic)
  local all = call('HLEN', P .. 'j:' .. topic)
  if all == 0 then return nil end
  local ready, high, oldest = 0, nil, 0
  local running, dead = call('ZCARD', P .. 'l:' .. topic), call('ZCARD', P .. 'dead:' .. topic)
  local finished = call('ZCARD', P .. 'fin:' .. topic)
  for _, priority in ipairs(PRIORITIES) do
    local key = P .. 'w:' .. priority .. ':' .. topic
    local n = all > running + dead + finished and call('ZCOUNT', key, '-inf', DUE) or 0
    if n > 0 then
      local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
      local job = find(topic, first[1])
      oldest = math.max(oldest, now - math.max(first[2] / 1000, job and job.created or 0)) -- due times may be long past
    end
    ready, high = ready + n, high or n -- high is the first of them
  end
  return {all - ready - running - dead - finished, ready, running, dead, math.floor(oldest), high}
end
