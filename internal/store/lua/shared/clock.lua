-- The time in microseconds, by the clock of the server that runs the script, which is also that of keys that expire.
local micros
local EXPIRING = true
do
  local time = redis.call('TIME')
  micros = time[1] * 1000000 + time[2]
end
