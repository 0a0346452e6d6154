-- Replaces clock_standing.lua in the script that moves the clock. Its last arguments are the time in µs to move to, and
-- '1' to pass over due jobs and events that have come. It stops at the first event, and stays while a topic has its turn.
local micros
local EXPIRING = false
do
  local passes, to = table.remove(ARGV) == '1', tonumber(table.remove(ARGV))
  local clock, q, queues = KEYS[1] .. 'clock', KEYS[1] .. 'q:', 0
  micros = tonumber(redis.call('GET', clock) or 0)
  local least = passes and string.format('(%.17g', micros / 1000) or '-inf'
  local event = redis.call('ZRANGE', KEYS[1] .. 'next', least, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  if event then to = math.min(to, 1000 * math.ceil(event)) end
  if not passes then queues = redis.call('EXISTS', q .. 'high', q .. 'normal', q .. 'low') end
  if queues == 0 and to > micros then
    micros = to
    redis.call('SET', clock, string.format('%d', micros))
  end
end
